package warren.agent;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.util.Enumeration;
import java.util.HashSet;
import java.util.Set;
import java.util.zip.CRC32;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;
import warren.runtime.Conf;

/**
 * Offline instrumentation: {@code java -cp agent.jar:runtime.jar warren.agent.Instrument instrument <conf> <in.jar> <out.jar>}. The
 * same changes and the same ids as at load time. {@code measure <conf> <table> <in.jar> <out.jar>...} does that and puts exact probes in,
 * numbered over all these jars; what they stand for is written to the table (docs/coverage.md). Prints the number of changed classes and one line per warning; no output file
 * and exit 1 when a jar cannot be read or written, 3 when a dictionary hook cannot do what it says.
 */
public final class Instrument {
    /** Exit code where a dictionary hook cannot do what it says: another one than where something could not be read or written. */
    private static final int REFUSED = 3;

    private Instrument() {}

    /** A dictionary hook cannot do what it says. */
    static final class Refused extends IOException {
        Refused(String why) {
            super(why);
        }
    }

    public static void main(String[] args) {
        boolean measure = args.length > 0 && args[0].equals("measure");
        int first = measure ? 3 : 2;
        if (args.length < first + 2 || (args.length - first) % 2 != 0 || !measure && !args[0].equals("instrument")) {
            System.err.println("usage: instrument <agent.conf> <in.jar> <out.jar> [<in.jar> <out.jar>]...\n"
                    + "       measure <agent.conf> <table> <in.jar> <out.jar> [<in.jar> <out.jar>]...");
            System.exit(2);
        }
        try {
            Conf conf = Conf.read(new File(args[1]));
            ProbeTable table = measure ? new ProbeTable() : null;
            for (int i = first; i < args.length; i += 2) {
                int changed = jar(conf, new File(args[i]), new File(args[i + 1]), table);
                System.out.println(changed + " classes " + args[i + 1]);
            }
            if (measure) {
                try (Writer to = new OutputStreamWriter(new FileOutputStream(args[2]), StandardCharsets.UTF_8)) {
                    table.write(to);
                }
            }
        } catch (Refused e) {
            System.err.println(e.getMessage());
            System.exit(REFUSED);
        } catch (IOException e) {
            System.err.println("warren instrument: " + e);
            System.exit(1);
        }
    }

    /** Returns how many classes were changed for coverage. The output appears whole or not at all. */
    static int jar(Conf conf, File in, File out, ProbeTable table) throws IOException {
        File part = new File(out.getPath() + ".part" + System.nanoTime());
        int changed = 0;
        try (ZipFile zip = new ZipFile(in);
                OutputStream file = new FileOutputStream(part);
                ZipOutputStream to = new ZipOutputStream(new java.io.BufferedOutputStream(file))) {
            Enumeration<? extends ZipEntry> entries = zip.entries();
            Set<String> seen = new HashSet<>(); // a jar may hold a name twice; class loading takes the first
            while (entries.hasMoreElements()) {
                ZipEntry entry = entries.nextElement();
                String name = entry.getName();
                if (signature(name) || !seen.add(name)) {
                    continue;
                }
                byte[] bytes = all(zip.getInputStream(entry));
                String className = className(name);
                if (className != null) {
                    AppClass result = AppClass.transform(className, bytes, conf, table);
                    if (result != null) {
                        if (result.refused != null) {
                            throw new Refused(result.refused);
                        }
                        for (String warning : result.warnings) {
                            System.out.println("warning: " + warning);
                        }
                        if (!result.failed) {
                            bytes = result.bytes;
                            changed += result.covered ? 1 : 0;
                        }
                    }
                }
                // Stored, not deflated: class loading from it costs less CPU in every node.
                ZipEntry copy = new ZipEntry(name);
                copy.setTime(entry.getTime());
                copy.setMethod(ZipEntry.STORED);
                copy.setSize(bytes.length);
                CRC32 crc = new CRC32();
                crc.update(bytes, 0, bytes.length);
                copy.setCrc(crc.getValue());
                to.putNextEntry(copy);
                to.write(bytes);
                to.closeEntry();
            }
        } catch (Refused e) {
            part.delete();
            throw e;
        } catch (IOException e) {
            part.delete();
            throw new IOException(in + ": " + e.getMessage(), e);
        }
        if (!part.renameTo(out)) {
            part.delete();
            throw new IOException("cannot write " + out);
        }
        return changed;
    }

    /** The class of an entry, also of one for a later Java version of a multi-release jar; null for anything else. */
    private static String className(String entry) {
        if (!entry.endsWith(".class") || entry.endsWith("module-info.class")) {
            return null;
        }
        String name = entry.substring(0, entry.length() - 6);
        if (!name.startsWith("META-INF/")) {
            return name;
        }
        int slash = name.startsWith("META-INF/versions/") ? name.indexOf('/', 18) : -1;
        return slash < 0 ? null : name.substring(slash + 1);
    }

    /** Signatures do not fit changed classes. */
    private static boolean signature(String name) {
        return name.startsWith("META-INF/")
                && (name.endsWith(".SF") || name.endsWith(".RSA") || name.endsWith(".DSA") || name.endsWith(".EC"));
    }

    private static byte[] all(InputStream in) throws IOException {
        try (InputStream from = in) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            byte[] buffer = new byte[8192];
            for (int n = from.read(buffer); n > 0; n = from.read(buffer)) {
                out.write(buffer, 0, n);
            }
            return out.toByteArray();
        }
    }
}
