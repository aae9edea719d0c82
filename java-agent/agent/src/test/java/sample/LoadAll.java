package sample;

import java.io.File;
import java.util.Collections;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/** Loads and links (and so verifies) every class of the jars named; prints how many were linked and each VerifyError. */
public class LoadAll {
    public static void main(String[] args) throws Exception {
        int linked = 0;
        int errors = 0;
        for (String jar : args) {
            try (ZipFile zip = new ZipFile(new File(jar))) {
                for (ZipEntry e : Collections.list(zip.entries())) {
                    if (!e.getName().endsWith(".class") || e.getName().startsWith("META-INF") || e.getName().contains("module-info")) {
                        continue;
                    }
                    String name = e.getName().substring(0, e.getName().length() - 6).replace('/', '.');
                    try {

                        Class<?> c = Class.forName(name, false, LoadAll.class.getClassLoader());
                        c.getDeclaredMethods();
                        java.io.ObjectStreamClass.lookupAny(c);
                        sun(c);
                        linked++;
                    } catch (VerifyError | ClassFormatError x) {
                        errors++;
                        System.out.println("BROKEN " + name + " " + x.getMessage());
                    } catch (Throwable x) {
                        // classes of optional dependencies
                    }
                }
            }
        }
        System.out.println("linked " + linked + " errors " + errors);
    }

    /** Links the class without initialising it. */
    private static void sun(Class<?> c) throws Exception {
        java.lang.invoke.MethodHandles.Lookup lookup = java.lang.invoke.MethodHandles.lookup();
        try {
            lookup.ensureInitialized(c);
        } catch (IllegalAccessException e) {
            Class.forName(c.getName(), true, c.getClassLoader());
        }
    }
}
