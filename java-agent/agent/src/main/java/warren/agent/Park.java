package warren.agent;

import java.io.BufferedReader;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.lang.reflect.Executable;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import sun.hotspot.WhiteBox;

/**
 * A JVM that is to be dumped before its program's first line (docs/decisions/0011): premain waits here while {@code .park} lies in the
 * working directory. That file names a list, one {@code class} or {@code class method} a line; before it waits, the JVM loads the
 * classes and compiles the methods, so that whoever goes on from the dump need not.
 *
 * <p>Runs no code of the target: classes are loaded, never initialised. What cannot be loaded or compiled is left out.
 */
final class Park {
    /** Asks a JVM to wait, and names the list; its absence lets it go on. */
    private static final String ASKED = ".park";
    /** Says that it waits now, and how many methods were asked to be compiled. */
    private static final String WAITS = ".parked";
    private static final int TURN_MS = 2;
    /** A compiler that does not get on: what is compiled by then must do. */
    private static final int MOST_TURNS = 15_000;

    private Park() {}

    /** True where this JVM is to wait. */
    static boolean asked() {
        return new File(ASKED).exists();
    }

    static void park() throws IOException, InterruptedException {
        String list;
        try (BufferedReader in = read(ASKED)) {
            list = in.readLine();
        }
        int methods = list == null || list.isEmpty() ? 0 : compile(list);
        File part = new File(WAITS + ".part");
        try (OutputStream out = new FileOutputStream(part)) {
            out.write((methods + "\n").getBytes(StandardCharsets.UTF_8));
        }
        if (!part.renameTo(new File(WAITS))) {
            throw new IOException("cannot rename " + part.getAbsolutePath());
        }
        while (asked()) {
            Thread.sleep(TURN_MS);
        }
    }

    private static BufferedReader read(String file) throws IOException {
        return new BufferedReader(new InputStreamReader(new FileInputStream(file), StandardCharsets.UTF_8));
    }

    /** Number of methods that the JVM took to compile; returns when it has done so. */
    private static int compile(String list) throws IOException, InterruptedException {
        WhiteBox box = new WhiteBox();
        HashMap<String, HashMap<String, List<Executable>>> known = new HashMap<>();
        int taken = 0;
        try (BufferedReader in = read(list)) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                int space = line.indexOf(' ');
                if (space < 0) {
                    load(line);
                    continue;
                }
                String name = line.substring(0, space);
                HashMap<String, List<Executable>> methods = known.get(name);
                if (methods == null) {
                    methods = methods(name);
                    known.put(name, methods);
                }
                List<Executable> overloads = methods.get(line.substring(space + 1));
                for (int i = 0; overloads != null && i < overloads.size(); i++) {
                    taken += box.enqueueMethodForCompilation0(overloads.get(i), WhiteBox.SIMPLE, -1) ? 1 : 0;
                }
            }
        }
        for (int turn = 0; turn < MOST_TURNS && box.getCompileQueueSize(WhiteBox.SIMPLE) > 0; turn++) {
            Thread.sleep(TURN_MS);
        }
        return taken;
    }

    /** Methods and constructors of a class by name; none where it cannot be loaded. */
    private static HashMap<String, List<Executable>> methods(String name) {
        HashMap<String, List<Executable>> out = new HashMap<>();
        try {
            Class<?> c = load(name);
            for (Executable m : c == null ? new Executable[0] : c.getDeclaredMethods()) {
                add(out, m.getName(), m);
            }
            for (Executable m : c == null ? new Executable[0] : c.getDeclaredConstructors()) {
                add(out, "<init>", m);
            }
        } catch (LinkageError | RuntimeException e) {
            // a class that it names is missing
        }
        return out;
    }

    /** The class, not initialised; null where it cannot be had: of another loader, or made while the program ran. */
    private static Class<?> load(String name) {
        try {
            return Class.forName(name, false, ClassLoader.getSystemClassLoader());
        } catch (ClassNotFoundException | LinkageError | RuntimeException e) {
            return null;
        }
    }

    /** Where there is something to compile: of a method without bytecode the JVM does not say no, it dies. */
    private static void add(HashMap<String, List<Executable>> all, String name, Executable method) {
        if ((method.getModifiers() & (Modifier.ABSTRACT | Modifier.NATIVE)) != 0) {
            return;
        }
        List<Executable> of = all.get(name);
        if (of == null) {
            of = new ArrayList<>();
            all.put(name, of);
        }
        of.add(method);
    }
}
