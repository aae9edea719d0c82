package warren.agent;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.lang.instrument.ClassFileTransformer;
import java.security.CodeSource;
import java.security.ProtectionDomain;
import warren.runtime.Conf;
import warren.runtime.Guard;
import warren.runtime.Link;

/** Load-time instrumentation of application classes: coverage and dictionary hooks. A class that fails stays as it is, with a warning. */
final class AppTransformer implements ClassFileTransformer {
    private final Conf conf;

    AppTransformer(Conf conf) {
        this.conf = conf;
    }

    @Override
    public byte[] transform(ClassLoader loader, String name, Class<?> redefined, ProtectionDomain domain, byte[] bytes) {
        if (loader == null || name == null || redefined != null || name.startsWith("warren/")) {
            return null;
        }
        if (isInstrumented(domain)) {
            return null;
        }
        int ticket = Guard.enter();
        try {
            AppClass changed = AppClass.transform(name, bytes, conf);
            if (changed == null) {
                return null;
            }
            for (String warning : changed.warnings) {
                Link.warn(warning);
            }
            if (changed.failed) {
                Link.count(Link.CLASS_FAILURES);
                return null;
            }
            if (changed.covered) {
                Link.count(Link.CLASSES);
            }
            dump(conf, name, changed.bytes);
            return changed.bytes;
        } catch (Throwable t) {
            Link.count(Link.CLASS_FAILURES);
            Link.warn("class " + name + " stays as it is: " + t);
            return null;
        } finally {
            if (ticket >= 0) {
                Guard.exit(ticket);
            }
        }
    }

    /** Its jar was instrumented before: once more, and each of its hooks would stand in it twice. */
    private boolean isInstrumented(ProtectionDomain domain) {
        CodeSource source = domain == null ? null : domain.getCodeSource();
        if (source == null || source.getLocation() == null) {
            return false;
        }
        String path;
        try {
            path = new File(source.getLocation().toURI()).getPath();
        } catch (java.net.URISyntaxException | IllegalArgumentException e) {
            return false; // no file, so none that was listed
        }
        for (String jar : conf.instrumented) {
            if (jar.equals(path)) {
                return true;
            }
        }
        return false;
    }

    /** Writes a transformed class below the dump folder; all nodes write the same bytes. */
    static void dump(Conf conf, String name, byte[] bytes) throws IOException {
        if (conf.dump == null) {
            return;
        }
        File file = new File(conf.dump, name + ".class");
        File folder = file.getParentFile();
        if (!folder.isDirectory() && !folder.mkdirs() && !folder.isDirectory()) {
            Link.warn("dump: cannot make " + folder);
            return;
        }
        try (FileOutputStream out = new FileOutputStream(file)) {
            out.write(bytes);
        }
    }
}
