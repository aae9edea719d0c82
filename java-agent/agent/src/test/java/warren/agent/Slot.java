package warren.agent;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.RandomAccessFile;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/**
 * The executor's side of docs/formats.md for tests: makes the pages of one node, starts child JVMs with the agent in it, reads what they
 * left. Written from the document alone, with a plain buffer, so that it checks the agent's own reading of it.
 */
final class Slot implements AutoCloseable {
    static final int CAP_WORD = 3, INCARNATION = 9, AGENT_STATE = 10, EVENTS_NEXT = 12, EVENTS_DROPPED = 13, UNBOUND = 16;
    static final int HELD_INDEX = 17, HELD_THREAD = 18, HELD_EVENT = 20, HELD_N = 28, BYTES_SENT = 21, BYTES_RECEIVED = 22;
    static final int CLASSES = 23, FAILURES = 24, ROLE = 25, ERRORS = 26;
    private static final String[] KINDS = {
        "?", "create", "write", "force", "truncate", "rename", "delete", "send", "receive", "msg-send", "msg-receive"
    };
    private static final int INTERN = 1 << 20;

    record Event(long stack, int interval, int n, String kind, String place, int phase, int role, int flags, int incarnation,
            int thread, String peer, String detail, long bytes, List<String> frames) {
        String method() {
            String top = frames.get(0);
            return top.substring(top.lastIndexOf('.') + 1, top.indexOf(':'));
        }

        @Override
        public String toString() {
            return kind + " " + place + " " + detail;
        }
    }

    boolean verifyAll = true;
    /** What the agent is told in the place of its configuration. */
    String agentArgs;
    final Path dir;
    final Path node;
    private final MappedByteBuffer run;
    private final MappedByteBuffer page;
    private final int cap;
    private final List<Process> children = new ArrayList<>();

    Slot(Path dir, String... conf) throws IOException {
        this(dir, 4096, conf);
    }

    Slot(Path dir, int cap, String... conf) throws IOException {
        this.dir = dir;
        this.cap = cap;
        node = Files.createDirectories(dir.resolve("a"));
        StringBuilder text = new StringBuilder("version 1\nnode a 127.0.0.11\nnode b 127.0.0.12\nlog stdout\nlog own.log\n");
        for (String line : conf) {
            text.append(line).append('\n');
        }
        Files.writeString(dir.resolve("agent.conf"), text);
        run = map("run.page", 4096);
        run.putLong(0, 0x3147_5052_4e52_4157L).putLong(8, 3).putLong(5 * 8, 65536);
        page = map("node-a.page", (1 << 20) + 64 * cap + INTERN);
        page.putLong(0, 0x3147_444e_4e52_4157L).putLong(8, 3).putLong(24, cap).putLong(32, INTERN);
        map("cov.map", 65536);
    }

    private MappedByteBuffer map(String name, int size) throws IOException {
        try (RandomAccessFile f = new RandomAccessFile(dir.resolve(name).toFile(), "rw")) {
            f.setLength(size);
            MappedByteBuffer b = f.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, size);
            b.order(ByteOrder.LITTLE_ENDIAN);
            return b;
        }
    }

    long header(int word) {
        return page.getLong(8 * word);
    }

    void state(int phase, int current) {
        run.putLong(16, (long) phase << 32 | current);
    }

    long held() {
        return run.getLong(24);
    }

    void release(int action, int index) {
        run.putLong(32, (long) action << 32 | index + 1);
    }

    void cut(int ip, int mode) {
        page.putLong(16384 + 8, mode);
        page.putLong(16384, ip);
    }

    /** One entry of PLAN; {@code frames} null = exact. */
    void plan(int index, long stack, int kind, int place, int n, int phase, int role, String frames) {
        page.putLong(40, page.getLong(40) + 1);
        int at = 4096;
        byte[] pattern = frames == null ? new byte[0] : frames.getBytes(StandardCharsets.UTF_8);
        for (int i = 0; i < pattern.length; i++) {
            page.put(544768 + 16 + i, pattern[i]);
        }
        long[] words = {index, frames == null ? 1 : 2, stack, kind, place, n, phase, role, 16, pattern.length, 0, 0, 0};
        for (int i = 0; i < words.length; i++) {
            page.putLong(at + 8 * i, words[i]);
        }
        page.putLong(48, 1);
        page.putLong(40, page.getLong(40) + 1);
    }

    /** Arrivals of the plan's entry in the present interval. */
    int arrivals() {
        return (int) page.getLong(4096 + 88);
    }

    /** When the last of them came. */
    long lastArrival() {
        return page.getLong(4096 + 96);
    }

    void acceptLess() {
        page.putLong(4096 + 80, 1);
    }

    Map<Integer, String> texts() {
        Map<Integer, String> texts = new HashMap<>();
        Map<Long, String> stacks = new HashMap<>();
        intern(texts, stacks);
        return texts;
    }

    List<String> warnings() {
        return texts().values().stream().filter(t -> t.startsWith("warning: ")).sorted().toList();
    }

    private void intern(Map<Integer, String> texts, Map<Long, String> stacks) {
        int base = (1 << 20) + 64 * cap;
        int used = (int) header(14);
        for (int at = 0; at < used; ) {
            long head = page.getLong(base + at);
            int length = (int) head;
            byte[] bytes = new byte[length];
            for (int i = 0; i < length; i++) {
                bytes[i] = page.get(base + at + 16 + i);
            }
            String text = new String(bytes, StandardCharsets.UTF_8);
            if (head >>> 32 == 2) {
                texts.put(at + 1, text);
            } else {
                stacks.putIfAbsent(page.getLong(base + at + 8), text);
            }
            at += 16 + (length + 7 & ~7);
        }
    }

    List<Event> events() {
        Map<Integer, String> texts = new HashMap<>();
        Map<Long, String> stacks = new HashMap<>();
        intern(texts, stacks);
        List<Event> events = new ArrayList<>();
        for (int i = 0; i < Math.min(cap, header(EVENTS_NEXT)); i++) {
            int at = (1 << 20) + 64 * i;
            if (page.getLong(at) != i + 1) {
                continue;
            }
            long stack = page.getLong(at + 16);
            long occurrence = page.getLong(at + 24);
            long ids = page.getLong(at + 40);
            events.add(new Event(stack, (int) (occurrence >>> 32), (int) occurrence, KINDS[page.get(at + 32)],
                    page.get(at + 33) == 1 ? "before" : "after", page.get(at + 34), page.get(at + 35), page.get(at + 36),
                    page.get(at + 37), page.getShort(at + 38) & 0xffff, texts.getOrDefault((int) ids, ""), texts.getOrDefault((int) (ids >>> 32), ""),
                    page.getLong(at + 48), List.of(stacks.get(stack).split("\n"))));
        }
        return events;
    }

    List<Event> events(String method) {
        return events().stream().filter(e -> e.method().equals(method)).toList();
    }

    int covered() throws IOException {
        int n = 0;
        for (byte b : Files.readAllBytes(dir.resolve("cov.map"))) {
            n += b;
        }
        return n;
    }

    static File jar(String module) {
        File file = new File("../" + module + "/target/warren-" + module + ".jar").getAbsoluteFile();
        if (!file.exists()) {
            throw new IllegalStateException(file + " is missing: run mvn verify");
        }
        return file;
    }

    /**
     * Every JDK at hand, one per version: those named in the variable WARREN_JDKS (folders, joined by colons); without it ours, and those
     * beside it.
     */
    static List<String> javas() {
        return Javas.ALL;
    }

    /** Looked for once: each is started for it. */
    private static final class Javas {
        static final List<String> ALL = find();
    }

    private static List<String> find() {
        Map<String, String> javas = new LinkedHashMap<>();
        String named = System.getenv("WARREN_JDKS");
        if (named != null) {
            for (String home : named.split(":")) {
                String version = version(new File(home));
                if (version == null) {
                    throw new IllegalStateException("WARREN_JDKS names `" + home + "`, which is no JDK");
                }
                javas.putIfAbsent(version, home);
            }
            return new ArrayList<>(javas.values());
        }
        javas.put(System.getProperty("java.specification.version"), System.getProperty("java.home"));
        File[] others = new File(System.getProperty("java.home")).getParentFile().listFiles();
        for (File other : others == null ? new File[0] : others) {
            String version = new File(other, "bin/java").canExecute() ? version(other) : null;
            if (version != null) {
                javas.putIfAbsent(version, other.getPath());
            }
        }
        return new ArrayList<>(javas.values());
    }

    /** Asks a JDK for its version (8, 11, ...); null when it has no answer. */
    static String version(File home) {
        try {
            Process p = new ProcessBuilder(home + "/bin/java", "-XshowSettings:properties", "-version").redirectErrorStream(true).start();
            String said = new String(p.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            for (String line : said.split("\n")) {
                if (line.strip().startsWith("java.specification.version = ")) {
                    return line.replaceAll("^.* = ", "").replaceAll("^1\\.", "").strip();
                }
            }
            return null;
        } catch (IOException e) {
            return null;
        }
    }

    List<String> command(String java, String classPath, String... more) {
        List<String> c = new ArrayList<>(List.of(java + "/bin/java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
                "-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true", "-Xbootclasspath/a:" + jar("runtime"),
                "-javaagent:" + jar("agent") + "=" + (agentArgs == null ? dir.resolve("agent.conf") + ",a" : agentArgs)));
        if (verifyAll) {
            c.add("-Xverify:all");
        }
        c.addAll(List.of("-cp", classPath));
        c.addAll(List.of(more));
        return c;
    }

    static String testClasses() {
        return new File("target/test-classes").getAbsolutePath();
    }

    /** Starts a child with its input and output at hand. */
    Child start(String java, String classPath, String... more) throws IOException {
        Process p = new ProcessBuilder(command(java, classPath, more)).directory(node.toFile()).redirectErrorStream(true).start();
        children.add(p);
        return new Child(p);
    }

    /** Runs a child to its end and returns its output. */
    String run(String java, String classPath, String... more) throws Exception {
        Child child = start(java, classPath, more);
        String out = new String(child.process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        if (!child.process.waitFor(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException("the child does not end: " + out);
        }
        return child.process.exitValue() + "\n" + out;
    }

    /** Whether it came to be, in a time that a busy machine has too. */
    static boolean await(BooleanSupplier condition) throws InterruptedException {
        long limit = System.nanoTime() + 60_000_000_000L;
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() - limit >= 0) {
                return false;
            }
            Thread.sleep(5);
        }
        return true;
    }

    @Override
    public void close() {
        for (Process p : children) {
            p.destroyForcibly();
        }
    }

    /** A child that is driven by lines: see sample.Puppet. */
    static final class Child {
        final Process process;
        private final PrintStream in;
        private final BufferedReader out;

        Child(Process process) {
            this.process = process;
            in = new PrintStream(process.getOutputStream(), true);
            out = new BufferedReader(new InputStreamReader(process.getInputStream()));
        }

        void tell(String command) {
            in.println(command);
        }

        /** Next line of output that is not a warning of the JVM's. */
        String line() throws IOException {
            String line = out.readLine();
            while (line != null && (line.contains("warning:") || line.startsWith("WARNING"))) {
                line = out.readLine();
            }
            return line;
        }

        String ask(String command) throws IOException {
            tell(command);
            return line();
        }
    }
}
