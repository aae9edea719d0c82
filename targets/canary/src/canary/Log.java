package canary;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.ByteArrayInputStream;
import java.io.EOFException;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.zip.CRC32;

/**
 * The log: segment files of 16 entries and the entries since the last checkpoint in memory. Live appends are forced one by one;
 * what a joining follower is sent is buffered and forced at once. Guarded by the node's lock.
 */
final class Log {
    static final int SEGMENT = 16;

    /** An append that does not follow the log's end. */
    static final class GapException extends IOException {
        private static final long serialVersionUID = 1;

        GapException(String message) {
            super(message);
        }
    }

    private final File dir;
    private final List<Entry> entries = new ArrayList<>();
    private final List<Long> ends = new ArrayList<>();
    private final List<Entry> buffered = new ArrayList<>();
    private long baseIndex;
    private long baseEpoch;
    private File segment;
    private long segmentFirst;
    private FileOutputStream out;
    private long position;

    Log(File dir, long baseIndex, long baseEpoch) throws IOException {
        this.dir = dir;
        this.baseIndex = baseIndex;
        this.baseEpoch = baseEpoch;
        recover();
    }

    long length() {
        return baseIndex + entries.size();
    }

    long base() {
        return baseIndex;
    }

    long lastEpoch() {
        return entries.isEmpty() ? baseEpoch : entries.get(entries.size() - 1).epoch;
    }

    Entry get(long index) {
        return entries.get((int) (index - baseIndex - 1));
    }

    /** Epoch of the entry at this index, -1 when the log no longer or not yet has it. */
    long epochAt(long index) {
        return index == baseIndex ? baseEpoch : index < baseIndex || index > length() ? -1 : get(index).epoch;
    }

    boolean holds(long request) {
        for (Entry e : entries) {
            if (e.request == request) {
                return true;
            }
        }
        return false;
    }

    /** "epoch:last index of it", oldest first. */
    String outline() {
        StringBuilder text = new StringBuilder();
        text.append(baseEpoch).append(':').append(baseIndex);
        for (int i = 0; i < entries.size(); i++) {
            if (i + 1 == entries.size() || entries.get(i + 1).epoch != entries.get(i).epoch) {
                text.append(',').append(entries.get(i).epoch).append(':').append(entries.get(i).index);
            }
        }
        return text.toString();
    }

    private void follows(Entry e) throws GapException {
        if (e.index != length() + 1) {
            throw new GapException("entry " + e.index + " after " + length());
        }
    }

    /** Puts one entry at the end, on disk before it returns. */
    void append(Entry e) throws IOException {
        follows(e);
        write(e);
        out.getChannel().force(false);
        entries.add(e);
        ends.add(position);
    }

    /** Takes an entry into memory; {@link #forceBuffered} puts it on disk. */
    void buffer(Entry e) throws IOException {
        follows(e);
        entries.add(e);
        ends.add(0L);
        buffered.add(e);
    }

    void forceBuffered() throws IOException {
        for (Entry e : buffered) {
            write(e);
            ends.set((int) (e.index - baseIndex - 1), position);
        }
        if (!buffered.isEmpty()) {
            out.getChannel().force(false);
        }
        buffered.clear();
    }

    /** Forgets what was buffered and never forced. */
    void dropBuffered() {
        for (int i = buffered.size(); i > 0; i--) {
            entries.remove(entries.size() - 1);
            ends.remove(ends.size() - 1);
        }
        buffered.clear();
    }

    private void write(Entry e) throws IOException {
        if (out == null || (e.index - 1) / SEGMENT != (segmentFirst - 1) / SEGMENT) {
            roll(e.index);
        }
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        e.encode(new DataOutputStream(body));
        CRC32 crc = new CRC32();
        crc.update(body.toByteArray());
        ByteArrayOutputStream record = new ByteArrayOutputStream();
        DataOutputStream data = new DataOutputStream(record);
        data.writeInt(body.size());
        data.writeLong(crc.getValue());
        body.writeTo(data);
        out.write(record.toByteArray());
        position += record.size();
    }

    private void roll(long first) throws IOException {
        if (out != null) {
            out.close();
        }
        segment = file(first);
        segmentFirst = first;
        out = new FileOutputStream(segment, true);
        position = segment.length();
    }

    private File file(long first) {
        return new File(dir, String.format("seg-%010d", first));
    }

    private File[] segments() {
        File[] files = dir.listFiles((d, name) -> name.startsWith("seg-"));
        Arrays.sort(files);
        return files;
    }

    /** Deleted in this order, what a crash leaves behind is always a log without a hole. */
    private File[] newestFirst() {
        File[] files = segments();
        Arrays.sort(files, Collections.reverseOrder());
        return files;
    }

    private static long first(File file) {
        return Long.parseLong(file.getName().substring(4));
    }

    /** Removes all entries after {@code last}. */
    void truncate(long last) throws IOException {
        if (last >= length()) {
            return;
        }
        dropBuffered();
        while (length() > last) {
            entries.remove(entries.size() - 1);
            ends.remove(ends.size() - 1);
        }
        if (out != null) {
            out.close();
            out = null;
        }
        segment = null;
        for (File file : newestFirst()) {
            if (last == baseIndex || first(file) > last) {
                Files.delete(file.toPath());
            } else if (segment == null) {
                segment = file;
                segmentFirst = first(file);
            }
        }
        if (segment != null) {
            position = ends.get(ends.size() - 1);
            try (RandomAccessFile cut = new RandomAccessFile(segment, "rw")) {
                cut.getChannel().truncate(position);
                cut.getChannel().force(true);
            }
            out = new FileOutputStream(segment, true);
        }
    }

    /** The checkpoint at {@code index} has replaced everything up to it. */
    void purge(long index) throws IOException {
        long epoch = epochAt(index);
        while (baseIndex < index) {
            entries.remove(0);
            ends.remove(0);
            baseIndex++;
        }
        baseEpoch = epoch;
        for (File file : segments()) {
            if (first(file) + SEGMENT - 1 <= index && !file.equals(segment)) {
                Files.delete(file.toPath());
            }
        }
        noteBegin();
    }

    /** Where the log begins, for whoever looks at the folder. */
    private void noteBegin() throws IOException {
        try (FileOutputStream note = new FileOutputStream(new File(dir, "begin"))) {
            note.write(Long.toString(baseIndex).getBytes(StandardCharsets.UTF_8));
            note.getChannel().force(false);
        }
    }

    /** Everything is replaced by a checkpoint from elsewhere. */
    void restart(long index, long epoch) throws IOException {
        entries.clear();
        ends.clear();
        buffered.clear();
        baseIndex = index;
        baseEpoch = epoch;
        if (out != null) {
            out.close();
            out = null;
        }
        segment = null;
        for (File file : newestFirst()) {
            Files.delete(file.toPath());
        }
    }

    /** Reads what is on disk after the base; a torn end is cut off, a log that contradicts the base is dropped. */
    private void recover() throws IOException {
        boolean torn = false;
        for (File file : segments()) {
            if (torn) {
                Files.delete(file.toPath());
                continue;
            }
            byte[] bytes = Files.readAllBytes(file.toPath());
            int good = 0;
            DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes));
            while (good < bytes.length) {
                Entry e = record(in);
                if (e == null) {
                    torn = true;
                    break;
                }
                good = bytes.length - in.available();
                if (e.index == baseIndex && e.epoch != baseEpoch) {
                    restart(baseIndex, baseEpoch);
                    return;
                }
                if (e.index > baseIndex) {
                    if (e.index != length() + 1) {
                        torn = true;
                        break;
                    }
                    entries.add(e);
                    ends.add((long) good);
                }
            }
            if (good == 0) {
                Files.delete(file.toPath());
                continue;
            }
            segment = file;
            segmentFirst = first(file);
            if (good < bytes.length) {
                try (RandomAccessFile cut = new RandomAccessFile(file, "rw")) {
                    cut.setLength(good);
                }
            }
        }
        if (segment != null) {
            out = new FileOutputStream(segment, true);
            position = segment.length();
        }
    }

    private static Entry record(DataInputStream in) throws IOException {
        try {
            byte[] body = new byte[in.readInt()];
            long sum = in.readLong();
            in.readFully(body);
            CRC32 crc = new CRC32();
            crc.update(body);
            return crc.getValue() == sum ? Entry.decode(new DataInputStream(new ByteArrayInputStream(body))) : null;
        } catch (EOFException | NegativeArraySizeException e) {
            return null;
        }
    }
}
