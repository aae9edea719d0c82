package warren.runtime;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/**
 * The agent's end of the link: the mapped run page, node page and coverage map (docs/formats.md sections 3 and 4), and the few
 * values that hold for the whole life of the JVM. Started once by premain; everything else here reads it.
 */
public final class Link {
    static final long RUN_MAGIC = 0x314750524e524157L;
    static final long NODE_MAGIC = 0x3147444e4e524157L;
    static final int LAYOUT = 3;

    // run page
    static final int STATE = 2 * 8;
    static final int HELD = 3 * 8;
    static final int RELEASE = 4 * 8;
    static final int MAP_SIZE = 5 * 8;
    // node page
    static final int EVENTS_CAP = 3 * 8;
    static final int INTERN_BYTES = 4 * 8;
    static final int PLAN_GEN = 5 * 8;
    static final int PLAN_COUNT = 6 * 8;
    static final int AGENT_BUILD = 8 * 8;
    static final int INCARNATION = 9 * 8;
    public static final int AGENT_STATE = 10 * 8;
    static final int PID = 11 * 8;
    static final int EVENTS_NEXT = 12 * 8;
    static final int EVENTS_DROPPED = 13 * 8;
    static final int INTERN_NEXT = 14 * 8;
    static final int INTERN_DROPPED = 15 * 8;
    static final int UNBOUND = 16 * 8;
    static final int HELD_INDEX = 17 * 8;
    static final int HELD_THREAD = 18 * 8;
    static final int HELD_TIME = 19 * 8;
    static final int HELD_EVENT = 20 * 8;
    static final int BYTES_SENT = 21 * 8;
    static final int BYTES_RECEIVED = 22 * 8;
    public static final int CLASSES = 23 * 8;
    public static final int CLASS_FAILURES = 24 * 8;
    static final int ROLE = 25 * 8;
    public static final int ERRORS = 26 * 8;
    static final int VIRTUAL_HELD = 27 * 8;
    static final int HELD_N = 28 * 8;
    // regions of the node page
    static final int PLAN = 4096;
    static final int CUTS = 16384;
    static final int OCC = 20480;
    static final int OCC_ENTRIES = 16384;
    static final int PATTERNS = 544768;
    static final int PATTERN_BYTES = 65536;
    static final int EVENTS = 1 << 20;

    static Mem run;
    static Mem node;
    static Conf conf;
    static int incarnation;
    static int eventsCap;
    static int internBase;
    static int internBytes;
    /** This node's address, as a big-endian number. */
    static int address;
    /** This node's folder with a slash at its end: the working directory of the JVM. */
    static String folder;

    private Link() {}

    /**
     * Maps the pages that lie beside {@code confFile} and enters premain state 1.
     *
     * @throws IOException with the page and what is wrong with it; the JVM then does not start
     */
    public static void start(File confFile, Conf parsed, String name, long build) throws IOException {
        File dir = confFile.getAbsoluteFile().getParentFile();
        int index = -1;
        for (int i = 0; i < parsed.nodeNames.length; i++) {
            if (parsed.nodeNames[i].equals(name)) {
                index = i;
            }
        }
        if (index < 0) {
            throw new IOException(confFile + " has no line `node " + name + " <ipv4>`");
        }
        run = open(new File(dir, "run.page"), RUN_MAGIC);
        node = open(new File(dir, "node-" + name + ".page"), NODE_MAGIC);
        conf = parsed;
        address = parsed.nodeIps[index];
        folder = System.getProperty("user.dir") + "/";
        eventsCap = (int) node.get(EVENTS_CAP);
        internBytes = (int) node.get(INTERN_BYTES);
        internBase = EVENTS + 64 * eventsCap;
        incarnation = (int) node.add(INCARNATION, 1) + 1;
        node.put(AGENT_BUILD, build);
        node.put(PID, pid());
        node.put(ROLE, 0); // a new process serves as nothing yet
        Cov.start(new File(dir, "cov.map"), (int) run.get(MAP_SIZE));
        Exact.start(new File(dir, "probes.map"));
        Stacks.start(parsed);
        Dict.start(parsed);
        node.put(AGENT_STATE, 1);
    }

    private static Mem open(File file, long magic) throws IOException {
        Mem mem = Mem.map(file);
        if (mem.get(0) != magic) {
            throw new IOException(file + " does not start with the magic word of its kind");
        }
        if (mem.get(8) != LAYOUT) {
            throw new IOException(file + " has layout " + mem.get(8) + ", this agent knows " + LAYOUT);
        }
        return mem;
    }

    /** From /proc: the pid inside the slot, without loading the management classes. */
    private static long pid() {
        try {
            return Long.parseLong(new File("/proc/self").getCanonicalFile().getName());
        } catch (IOException | NumberFormatException e) {
            return 0;
        }
    }

    /** Adds one to a header word of the node page. */
    public static void count(int word) {
        Mem n = node;
        if (n != null) {
            n.add(word, 1);
        }
    }

    /** Sets a header word of the node page. */
    public static void set(int word, long value) {
        node.put(word, value);
    }

    /** Leaves a warning for the run record: a text of INTERN that starts with `warning: `. */
    public static void warn(String text) {
        if (node != null) {
            Intern.text("warning: ".concat(text));
        }
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
