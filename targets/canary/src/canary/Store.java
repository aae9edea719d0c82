package canary;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;

/** The small files of a node: what it has accepted, what it has joined, its checkpoint. Guarded by the node's lock. */
final class Store {
    /** A checkpoint that is written but not yet taken. */
    static final class Pending {
        final long index;
        final String owner;
        /** Its owner may have taken it. */
        final boolean sealed;

        Pending(long index, String owner, boolean sealed) {
            this.index = index;
            this.owner = owner;
            this.sealed = sealed;
        }

        String file() {
            return (sealed ? "sealed-" : "pending-") + index + "-" + owner;
        }
    }

    private final File dir;
    /** Highest epoch this node has voted for or joined. */
    long accepted;
    /** Epoch joined last, and where the log then ended: (epoch of the last entry, its index). */
    long epoch;
    long joinedEpoch;
    long joinedIndex;
    /** The checkpoint in force. */
    long checkpointIndex;
    long checkpointEpoch;
    private Pending pending;

    Store(File dir) throws IOException {
        this.dir = dir;
        String text = read("accepted");
        accepted = text == null ? 0 : Long.parseLong(text);
        text = read("epoch");
        if (text != null) {
            String[] parts = text.split(" ");
            epoch = Long.parseLong(parts[0]);
            joinedEpoch = Long.parseLong(parts[1]);
            joinedIndex = Long.parseLong(parts[2]);
        }
        for (String name : dir.list()) {
            if (name.matches("checkpoint-\\d+-\\d+")) {
                String[] parts = name.split("-");
                if (Long.parseLong(parts[1]) > checkpointIndex) {
                    checkpointIndex = Long.parseLong(parts[1]);
                    checkpointEpoch = Long.parseLong(parts[2]);
                }
            } else if (name.matches("(pending|sealed)-\\d+-\\w+")) {
                String[] parts = name.split("-");
                pending = new Pending(Long.parseLong(parts[1]), parts[2], parts[0].equals("sealed"));
            }
        }
    }

    private String read(String name) throws IOException {
        File file = new File(dir, name);
        return file.exists() ? new String(Files.readAllBytes(file.toPath()), StandardCharsets.UTF_8).trim() : null;
    }

    /** Written beside (each write on disk before it returns), renamed: there is always an old or a new one. */
    private void replace(String name, byte[] bytes) throws IOException {
        File fresh = new File(dir, name + ".new");
        Files.deleteIfExists(fresh.toPath());
        try (RandomAccessFile out = new RandomAccessFile(fresh, "rwd")) {
            out.write(bytes);
        }
        Files.move(fresh.toPath(), new File(dir, name).toPath(), StandardCopyOption.ATOMIC_MOVE);
    }

    void accept(long newEpoch) throws IOException {
        replace("accepted", Long.toString(newEpoch).getBytes(StandardCharsets.UTF_8));
        accepted = newEpoch;
    }

    void joined(long newEpoch, long lastEpoch, long lastIndex) throws IOException {
        replace("epoch", (newEpoch + " " + lastEpoch + " " + lastIndex).getBytes(StandardCharsets.UTF_8));
        epoch = newEpoch;
        joinedEpoch = lastEpoch;
        joinedIndex = lastIndex;
    }

    Pending pending() {
        return pending != null && pending.index > checkpointIndex ? pending : null;
    }

    void prepare(State state, String owner) throws IOException {
        drop();
        Pending next = new Pending(state.applied, owner, false);
        replace(next.file(), bytes(state));
        pending = next;
    }

    /** From here on the pending checkpoint's owner may have taken it. */
    void seal() throws IOException {
        Pending next = new Pending(pending.index, pending.owner, true);
        Files.move(new File(dir, pending.file()).toPath(), new File(dir, next.file()).toPath(), StandardCopyOption.ATOMIC_MOVE);
        pending = next;
    }

    void drop() throws IOException {
        if (pending != null) {
            Files.deleteIfExists(new File(dir, pending.file()).toPath());
            pending = null;
        }
    }

    /** The pending checkpoint becomes the one in force and stands for everything up to {@code index}. */
    void take(long index, long indexEpoch) throws IOException {
        File from = new File(dir, pending.file());
        Files.move(from.toPath(), checkpoint(index, indexEpoch).toPath(), StandardCopyOption.ATOMIC_MOVE);
        pending = null;
        inForce(index, indexEpoch);
    }

    /** A checkpoint from the leader becomes the one in force. */
    void install(byte[] state, long index, long indexEpoch) throws IOException {
        replace("checkpoint-" + index + "-" + indexEpoch, state);
        inForce(index, indexEpoch);
    }

    private void inForce(long index, long indexEpoch) throws IOException {
        File old = checkpoint(checkpointIndex, checkpointEpoch);
        checkpointIndex = index;
        checkpointEpoch = indexEpoch;
        if (!old.equals(checkpoint(index, indexEpoch))) {
            Files.deleteIfExists(old.toPath());
        }
    }

    private File checkpoint(long index, long indexEpoch) {
        return new File(dir, "checkpoint-" + index + "-" + indexEpoch);
    }

    byte[] checkpointBytes() throws IOException {
        return checkpointIndex == 0 ? bytes(new State())
                : Files.readAllBytes(checkpoint(checkpointIndex, checkpointEpoch).toPath());
    }

    State checkpointState() throws IOException {
        return State.decode(new DataInputStream(new ByteArrayInputStream(checkpointBytes())), checkpointIndex);
    }

    static byte[] bytes(State state) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        state.encode(new DataOutputStream(bytes));
        return bytes.toByteArray();
    }

    /** A mark that outlives a crash: something was begun. */
    void mark(String name, String text) throws IOException {
        replace(name, text.getBytes(StandardCharsets.UTF_8));
    }

    /** A line at the end of a file that is only ever read by people. */
    void journal(String name, String line) throws IOException {
        try (FileOutputStream out = new FileOutputStream(new File(dir, name), true)) {
            out.write((line + "\n").getBytes(StandardCharsets.UTF_8));
            out.getChannel().force(false);
        }
    }

    void unmark(String name) throws IOException {
        Files.deleteIfExists(new File(dir, name).toPath());
    }
}
