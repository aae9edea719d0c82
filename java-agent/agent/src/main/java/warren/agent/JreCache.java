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
import java.util.List;
import java.util.zip.CRC32;
import warren.runtime.Build;

/**
 * Changed class files of the JRE, kept beside the agent's jar (whose folder is named by its hash) in a file per JVM: loading ASM and
 * changing eight classes costs every node 40 ms of interpreted code. A file that cannot be read or written is no error: the classes
 * are then changed anew.
 *
 * <p>Holds what is made from class files, not from what the JVM hands to a transformer: that comes in another order of methods with
 * every class data archive.
 */
final class JreCache {
    private static final int VERSION = 2;

    private final ArrayList<String> names = new ArrayList<>();
    private final ArrayList<byte[]> classes = new ArrayList<>();

    /** The file of this JVM, or null where the agent's jar is not a file. */
    static File file() {
        try {
            File jar = new File(JreCache.class.getProtectionDomain().getCodeSource().getLocation().getPath());
            if (!jar.isFile()) {
                return null;
            }
            String home = System.getProperty("java.home");
            File modules = new File(home, "lib/modules");
            File image = modules.isFile() ? modules : new File(home, "lib/rt.jar");
            CRC32 crc = new CRC32();
            for (String key : new String[] {home, System.getProperty("java.vm.version"), System.getProperty("java.vm.vendor"), stamp(image),
                stamp(jar)}) { // a jar built by hand has no hash
                crc.update(key.getBytes("UTF-8"));
            }
            return new File(jar.getPath() + ".jre-" + Long.toHexString(crc.getValue()));
        } catch (IOException | RuntimeException e) {
            return null;
        }
    }

    private static String stamp(File file) {
        return Long.toString(file.length()) + " " + Long.toString(file.lastModified());
    }

    /** What the file holds if it holds all these classes, else null. */
    static JreCache read(File file, List<String> wanted) {
        if (file == null || !file.isFile()) {
            return null;
        }
        try (DataInputStream in = new DataInputStream(new BufferedInputStream(new FileInputStream(file), 1 << 16))) {
            if (in.readInt() != VERSION || in.readLong() != Build.HASH) {
                return null;
            }
            JreCache cache = new JreCache();
            int count = in.readInt();
            for (int i = 0; i < count; i++) {
                String name = in.readUTF();
                byte[] bytes = new byte[in.readInt()];
                in.readFully(bytes);
                cache.put(name, bytes);
            }
            return cache.names.containsAll(wanted) ? cache : null;
        } catch (IOException | RuntimeException e) {
            return null;
        }
    }

    /** The changed class file, or null for a class that is none of ours. */
    byte[] find(String name) {
        int index = names.indexOf(name);
        return index < 0 ? null : classes.get(index);
    }

    void put(String name, byte[] changed) {
        names.add(name);
        classes.add(changed);
    }

    /** Writes the file, whole or not at all; several JVMs may do so at once. */
    void write(File file) {
        if (file == null) {
            return;
        }
        File part = new File(file.getPath() + "." + System.nanoTime());
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(part)))) {
            out.writeInt(VERSION);
            out.writeLong(Build.HASH);
            out.writeInt(names.size());
            for (int i = 0; i < names.size(); i++) {
                out.writeUTF(names.get(i));
                out.writeInt(classes.get(i).length);
                out.write(classes.get(i));
            }
        } catch (IOException e) {
            part.delete();
            return;
        }
        if (!part.renameTo(file)) {
            part.delete();
        }
    }
}
