package warren.agent;

import java.io.BufferedReader;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import sun.hotspot.WhiteBox;

/**
 * What a JVM does before its program's first line so that whoever goes on from a dump of it need not: it loads the classes and compiles
 * the methods of a list (docs/decisions/0011). Asked by a file in its working directory, which names the list, one {@code class} or
 * {@code class method} a line, and the library of {@link MethodIds}, a line each. Called by premain.
 *
 * <p>{@code .park}: it then waits there for as long as the file lies. {@code .ahead}: it takes the file away and goes on; the cluster
 * that it belongs to is dumped later.
 *
 * <p>Runs no code of the target: classes are loaded and linked, never initialised. What cannot be loaded or compiled is left out, and
 * without the library nothing is compiled.
 */
final class Park {
    /** Asks a JVM to wait; its absence lets it go on. */
    private static final String WAIT = ".park";
    private static final String GO_ON = ".ahead";
    /** Says that it waits now, and how many methods were asked to be compiled. */
    private static final String WAITS = ".parked";
    private static final int TURN_MS = 2;
    /** A compiler that does not get on: what is compiled by then must do. Nobody waits for one that parks, a cluster for the others. */
    private static final long LONGEST_WAITING_NS = 30_000_000_000L;
    private static final long LONGEST_GOING_ON_NS = 15_000_000_000L;
    /** Methods handed over at once: those of a longer queue would be compiled in each run that goes on from the dump. */
    private static final int MOST_WAITING = 64;

    private final File asked;
    private final boolean waits;
    private final String list;
    private final String library;

    private Park(File asked, String list, String library) {
        this.asked = asked;
        waits = asked.getName().equals(WAIT);
        this.list = list;
        this.library = library;
    }

    /**
     * What this JVM is to do ahead; null where it is nothing. Looked up once: the file of other JVMs that wait may be taken away at any
     * moment, and one that has begun as usual must not miss it later.
     */
    static Park asked() throws IOException {
        for (String name : new String[] {WAIT, GO_ON}) {
            try (BufferedReader in = read(name)) {
                return new Park(new File(name), in.readLine(), in.readLine());
            } catch (FileNotFoundException e) {
                // Not asked so, or no more.
            }
        }
        return null;
    }

    void park() throws IOException, InterruptedException {
        if (!waits && !asked.delete()) {
            throw new IOException("cannot delete " + asked.getAbsolutePath());
        }
        int methods = list == null || list.isEmpty() ? 0 : prepare(list, library, waits ? LONGEST_WAITING_NS : LONGEST_GOING_ON_NS);
        if (!waits) {
            return;
        }
        File part = new File(WAITS + ".part");
        try (OutputStream out = new FileOutputStream(part)) {
            out.write((methods + "\n").getBytes(StandardCharsets.UTF_8));
        }
        if (!part.renameTo(new File(WAITS))) {
            throw new IOException("cannot rename " + part.getAbsolutePath());
        }
        while (asked.exists()) {
            Thread.sleep(TURN_MS);
        }
    }

    private static BufferedReader read(String file) throws IOException {
        return new BufferedReader(new InputStreamReader(new FileInputStream(file), StandardCharsets.UTF_8));
    }

    /** Number of methods that the JVM took to compile; returns when it has done so, or after so long. */
    private static int prepare(String list, String library, long longestNs) throws IOException, InterruptedException {
        long until = System.nanoTime() + longestNs;
        Map<Class<?>, List<String>> methods = new LinkedHashMap<>();
        try (BufferedReader in = read(list)) {
            Map<String, Class<?>> known = new HashMap<>();
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                int space = line.indexOf(' ');
                String name = space < 0 ? line : line.substring(0, space);
                if (!known.containsKey(name)) {
                    known.put(name, load(name));
                }
                Class<?> c = known.get(name);
                if (c != null && !methods.containsKey(c)) {
                    methods.put(c, new ArrayList<>());
                }
                if (c != null && space >= 0) {
                    methods.get(c).add(line.substring(space + 1));
                }
            }
        }
        // All are loaded and linked before the first is compiled: of classes that are not nothing is inlined, for good.
        try (MethodIds ids = library == null ? null : MethodIds.load(library)) {
            WhiteBox box = ids == null ? null : open();
            int taken = 0;
            for (Map.Entry<Class<?>, List<String>> of : methods.entrySet()) {
                for (int i = 0; box != null && System.nanoTime() - until < 0 && i < of.getValue().size(); i++) {
                    taken += compile(box, of.getKey(), of.getValue().get(i));
                    await(box, MOST_WAITING, until);
                }
            }
            await(box, 0, until);
            return taken;
        }
    }

    /** Waits until no more than so many methods wait for the compiler, or until that time. */
    private static void await(WhiteBox box, int waiting, long until) throws InterruptedException {
        while (box != null && System.nanoTime() - until < 0 && box.getCompileQueueSize(WhiteBox.SIMPLE) > waiting) {
            Thread.sleep(TURN_MS);
        }
    }

    /** Null in a JVM that was not started for it. */
    private static WhiteBox open() {
        // The JVM names each native that our class does not have, on the program's own output.
        int kept = MethodIds.mute();
        try {
            return new WhiteBox();
        } catch (LinkageError e) {
            return null;
        } finally {
            MethodIds.speak(kept);
        }
    }

    /** Hands all methods of this name to the compiler; how many it took. */
    private static int compile(WhiteBox box, Class<?> c, String name) {
        try {
            Method any = Object.class.getMethod("toString"); // the ids say which
            long[] ids = MethodIds.of(c, name);
            int taken = 0;
            for (int i = 0; ids != null && i < ids.length; i++) {
                MethodIds.ask(ids[i]);
                taken += box.enqueueMethodForCompilation0(any, WhiteBox.SIMPLE, -1) ? 1 : 0;
            }
            return taken;
        } catch (ReflectiveOperationException | LinkageError | RuntimeException e) {
            return 0;
        } finally {
            MethodIds.ask(0);
        }
    }

    /** The class, linked and not initialised; null where it cannot be had: of another loader, or made while the program ran. */
    private static Class<?> load(String name) {
        try {
            Class<?> c = Class.forName(name, false, ClassLoader.getSystemClassLoader());
            c.getDeclaredConstructors(); // links it
            return c;
        } catch (ClassNotFoundException | LinkageError | RuntimeException e) {
            return null;
        }
    }
}
