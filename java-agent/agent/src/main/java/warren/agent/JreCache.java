package warren.agent;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.zip.CRC32;

/**
 * Changed JRE classes, kept in a file beside the agent's jar (whose folder is named by its hash) under the JVM's version: loading ASM and
 * changing eight classes costs every node 40 ms of interpreted code. An entry counts only for exactly the same original bytes,
 * which the JVM puts together in the same order each time only with a class data archive, and in another order with another one. A
 * file that cannot be read or written is no error: the classes are then changed anew.
 */
final class JreCache {
    private static final int VERSION = 1;
    /** A class comes in as many forms as there are class data archives in use: more than this is a sign that they never repeat. */
    private static final int LIMIT = 64;

    private static final class Entry {
        String name;
        int length;
        long crc;
        byte[] changed;
    }

    private final ArrayList<Entry> entries = new ArrayList<>();

    /** The file of this JVM, or null where the agent's jar is not a file. */
    static File file() {
        try {
            if (!System.getProperty("java.vm.info", "").contains("sharing")) {
                return null; // without an archive the bytes are in another order in each JVM
            }
            File jar = new File(JreCache.class.getProtectionDomain().getCodeSource().getLocation().getPath());
            CRC32 crc = new CRC32();
            for (String key : new String[] {"java.vm.version", "java.vm.vendor", "java.vm.info", "java.home"}) {
                crc.update(System.getProperty(key, "").getBytes("UTF-8"));
            }
            crc.update(Long.toString(jar.length() ^ jar.lastModified()).getBytes("UTF-8")); // a jar built by hand has no hash
            return jar.isFile() ? new File(jar.getPath() + ".jre-" + Long.toHexString(crc.getValue())) : null;
        } catch (IOException | RuntimeException e) {
            return null;
        }
    }

    /** What the file holds, or null. */
    static JreCache read(File file) {
        if (file == null || !file.isFile()) {
            return null;
        }
        try (DataInputStream in = new DataInputStream(new BufferedInputStream(new FileInputStream(file), 1 << 16))) {
            if (in.readInt() != VERSION || in.readLong() != warren.runtime.Build.HASH) {
                return null;
            }
            JreCache cache = new JreCache();
            int count = in.readInt();
            for (int i = 0; i < count; i++) {
                Entry e = new Entry();
                e.name = in.readUTF();
                e.length = in.readInt();
                e.crc = in.readLong();
                e.changed = new byte[in.readInt()];
                in.readFully(e.changed);
                cache.entries.add(e);
            }
            return cache;
        } catch (IOException | RuntimeException e) {
            return null;
        }
    }

    byte[] find(String name, byte[] original) {
        for (Entry e : entries) {
            if (e.name.equals(name) && e.length == original.length && e.crc == crc(original)) {
                return e.changed;
            }
        }
        return null;
    }

    void put(String name, byte[] original, byte[] changed) {
        Entry e = new Entry();
        e.name = name;
        e.length = original.length;
        e.crc = crc(original);
        e.changed = changed;
        entries.add(e);
    }

    /** Writes the file, whole or not at all; several JVMs may do so at once. Nothing if no class was changed anew. */
    void write(File file) {
        if (file == null || entries.isEmpty()) {
            return;
        }
        JreCache before = read(file);
        if (before != null && before.entries.size() + entries.size() <= LIMIT) {
            entries.addAll(before.entries);
        } else if (before != null) {
            return;
        }
        File part = new File(file.getPath() + "." + System.nanoTime());
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(part)))) {
            out.writeInt(VERSION);
            out.writeLong(warren.runtime.Build.HASH);
            out.writeInt(entries.size());
            for (Entry e : entries) {
                out.writeUTF(e.name);
                out.writeInt(e.length);
                out.writeLong(e.crc);
                out.writeInt(e.changed.length);
                out.write(e.changed);
            }
        } catch (IOException e) {
            part.delete();
            return;
        }
        if (!part.renameTo(file)) {
            part.delete();
        }
    }

    private static long crc(byte[] bytes) {
        CRC32 crc = new CRC32();
        crc.update(bytes, 0, bytes.length);
        return crc.getValue();
    }
}
