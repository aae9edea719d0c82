package warren.agent;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.lang.reflect.Executable;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
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
 * <p>Runs no code of the target. HotSpot initialises the class of a method that it is handed, so methods are compiled only of classes
 * where that does nothing: of those that are initialised already, and of the target's own that have no static initialiser, nor has
 * any type above them. What cannot be loaded or compiled is left out.
 */
final class Park {
    /** Asks a JVM to wait, and names the list; its absence lets it go on. */
    private static final String ASKED = ".park";
    /** Says that it waits now, and how many methods were asked to be compiled. */
    private static final String WAITS = ".parked";
    private static final int TURN_MS = 2;
    /** A compiler that does not get on: what is compiled by then must do. */
    private static final int MOST_TURNS = 15_000;

    private final HashMap<Class<?>, Boolean> quiet = new HashMap<>();
    private final Object unsafe;
    /** {@code Unsafe.shouldBeInitialized}; null where there is none: then no class counts as initialised. */
    private final Method shouldBeInitialized;

    private Park() {
        quiet.put(Object.class, true);
        Object the = null;
        Method should = null;
        try {
            Class<?> c = Class.forName("sun.misc.Unsafe");
            Field field = c.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            the = field.get(null);
            should = c.getMethod("shouldBeInitialized", Class.class);
        } catch (ReflectiveOperationException | RuntimeException e) {
            // fewer methods are compiled ahead of time
        }
        unsafe = the;
        shouldBeInitialized = should;
    }

    /** True where this JVM is to wait. */
    static boolean asked() {
        return new File(ASKED).exists();
    }

    static void park() throws IOException, InterruptedException {
        String list;
        try (BufferedReader in = read(ASKED)) {
            list = in.readLine();
        }
        int methods = list == null || list.isEmpty() ? 0 : new Park().compile(list);
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
    private int compile(String list) throws IOException, InterruptedException {
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

    /** Methods and constructors of a class by name; none where it cannot be loaded, or where to ask for them would initialise it. */
    private HashMap<String, List<Executable>> methods(String name) {
        HashMap<String, List<Executable>> out = new HashMap<>();
        try {
            Class<?> c = load(name);
            if (c == null || !quiet(c)) {
                return out;
            }
            for (Executable m : c.getDeclaredMethods()) {
                add(out, m.getName(), m);
            }
            for (Executable m : c.getDeclaredConstructors()) {
                add(out, "<init>", m);
            }
        } catch (LinkageError | RuntimeException e) {
            // a class that it names is missing
        }
        return out;
    }

    /** True where initialising the class runs no code. */
    private boolean quiet(Class<?> c) {
        Boolean known = quiet.get(c);
        if (known == null) {
            known = initialised(c) || c.getClassLoader() == ClassLoader.getSystemClassLoader() && !initialises(c) && quietAbove(c);
            quiet.put(c, known);
        }
        return known;
    }

    private boolean quietAbove(Class<?> c) {
        boolean all = c.getSuperclass() == null || quiet(c.getSuperclass());
        for (Class<?> above : c.getInterfaces()) {
            all &= quiet(above);
        }
        return all;
    }

    private boolean initialised(Class<?> c) {
        try {
            return shouldBeInitialized != null && !(Boolean) shouldBeInitialized.invoke(unsafe, c);
        } catch (ReflectiveOperationException e) {
            return false;
        }
    }

    /** Whether its class file names a static initialiser, as far as its bytes tell; true where they cannot be read. */
    private static boolean initialises(Class<?> c) {
        try (InputStream in = ClassLoader.getSystemResourceAsStream(c.getName().replace('.', '/') + ".class")) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            byte[] piece = new byte[1 << 13];
            for (int n = in == null ? -1 : in.read(piece); n >= 0; n = in.read(piece)) {
                bytes.write(piece, 0, n);
            }
            return bytes.size() == 0 || bytes.toString("ISO-8859-1").contains("<clinit>");
        } catch (IOException e) {
            return true;
        }
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
