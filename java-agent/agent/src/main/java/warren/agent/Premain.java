package warren.agent;

import java.io.File;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.Method;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import warren.runtime.Build;
import warren.runtime.Conf;
import warren.runtime.Control;
import warren.runtime.Link;

/**
 * Start of the agent in a node: {@code -javaagent:agent.jar=<SHM>/agent.conf,<node>}. Maps the pages, changes the JRE's classes, and
 * registers the transformer of application classes unless every class path entry was instrumented before. In between it may be parked
 * ({@link Park}): then everything that belongs to a run is read after it goes on.
 *
 * <p>{@code -javaagent:agent.jar=ahead}, in the workload's JVM: it does what is asked ahead of time ({@link Park}), and nothing else; no
 * page, no hook.
 *
 * <p>Refuses to start the JVM when the pages cannot be mapped; a JRE hook that finds nothing to change is state 3 with its name.
 */
public final class Premain {
    private static final String ONLY_AHEAD = "ahead";
    private static final int HOOKED = 2;
    private static final int REFUSED = 3;

    private Premain() {}

    public static void premain(String args, Instrumentation inst) throws Exception {
        if (ONLY_AHEAD.equals(args)) {
            Park park = Park.asked();
            if (park != null) {
                park.park();
            }
            return;
        }
        int comma = args == null ? -1 : args.lastIndexOf(',');
        if (comma < 0) {
            throw new IllegalArgumentException("expected -javaagent:<agent.jar>=<agent.conf>,<node>, got: " + args);
        }
        if (Link.class.getClassLoader() != null) {
            throw new IllegalStateException("the runtime jar is not on the boot class path: add -Xbootclasspath/a:<runtime.jar>");
        }
        File file = new File(args.substring(0, comma));
        Conf conf = Conf.read(file);
        boolean java8 = System.getProperty("java.specification.version").startsWith("1.");
        boolean fast = !java8 && openStacks(inst) && Control.backtrace();
        Park park = Park.asked();
        boolean ahead = park != null && allInstrumented(conf);
        String missing = null;
        if (ahead) {
            // Changed first: what is compiled before its class changes is compiled for nothing. The hooks sleep until they are enabled.
            missing = JreHooks.install(inst);
            park.park();
            conf = Conf.read(file); // of the run it goes on in
        }
        Link.start(file, conf, args.substring(comma + 1), Build.HASH);
        if (!ahead) {
            missing = JreHooks.install(inst);
        }
        if (missing != null) {
            Link.warn("refused: hook " + missing + " found nothing to change in Java " + System.getProperty("java.version"));
            Link.set(Link.AGENT_STATE, REFUSED);
            return;
        }
        if (!allInstrumented(conf)) {
            inst.addTransformer(new AppTransformer(conf), false);
        } else if (conf.dump != null) {
            inst.addTransformer(new Dumper(conf), false);
        }
        if (!fast && !java8) {
            Link.warn("stacks are recognised by their elements, which costs several times more: Throwable.backtrace cannot be read in Java "
                    + System.getProperty("java.version"));
        }
        Control.enable();
        Link.set(Link.AGENT_STATE, HOOKED);
    }

    /**
     * Opens java.lang to the runtime's module, that of the boot class path, and to no other: the target's own reflection finds what it
     * finds without us. A manifest's {@code Add-Opens} would do nothing: it counts in the main jar only. By reflection: not in Java 8.
     *
     * @return false where that is not possible
     */
    private static boolean openStacks(Instrumentation inst) {
        try {
            Class<?> module = Class.forName("java.lang.Module");
            Method of = Class.class.getMethod("getModule");
            Map<String, Set<Object>> opened = Collections.singletonMap("java.lang", Collections.singleton(of.invoke(Link.class)));
            Instrumentation.class.getMethod("redefineModule", module, Set.class, Map.class, Map.class, Set.class, Map.class)
                    .invoke(inst, of.invoke(Throwable.class), Collections.emptySet(), Collections.emptyMap(), opened,
                            Collections.emptySet(), Collections.emptyMap());
            return true;
        } catch (ReflectiveOperationException | RuntimeException e) {
            return false;
        }
    }

    /** True for a folder without classes (a configuration, which some programs read from the class path), and for what is not there. */
    private static boolean onlyFiles(File folder) {
        File[] inside = folder.listFiles();
        if (inside == null) {
            return !folder.exists();
        }
        for (File file : inside) {
            if (file.getName().endsWith(".class") || file.isDirectory() && !onlyFiles(file)) {
                return false;
            }
        }
        return true;
    }

    /** True if every class path entry was instrumented before (a folder of configuration needs none): then no transformer of application classes is needed at all. */
    static boolean allInstrumented(Conf conf) {
        if (conf.instrumented.length == 0) {
            return false;
        }
        String path = System.getProperty("java.class.path");
        int from = 0;
        while (from <= path.length()) {
            int end = path.indexOf(File.pathSeparatorChar, from);
            end = end < 0 ? path.length() : end;
            String entry = path.substring(from, end);
            boolean known = entry.isEmpty() || entry.endsWith("warren-agent.jar");
            for (String jar : conf.instrumented) {
                known |= jar.equals(entry);
            }
            if (!known && !onlyFiles(new File(entry))) {
                return false;
            }
            from = end + 1;
        }
        return true;
    }
}
