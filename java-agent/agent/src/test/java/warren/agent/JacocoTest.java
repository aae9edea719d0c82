package warren.agent;

import static org.junit.jupiter.api.Assertions.*;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;
import org.jacoco.core.analysis.Analyzer;
import org.jacoco.core.analysis.CoverageBuilder;
import org.jacoco.core.analysis.IClassCoverage;
import org.jacoco.core.analysis.ICounter;
import org.jacoco.core.data.ExecutionData;
import org.jacoco.core.data.ExecutionDataStore;
import org.jacoco.core.data.SessionInfoStore;
import org.jacoco.core.instr.Instrumenter;
import org.jacoco.core.runtime.LoggerRuntime;
import org.jacoco.core.runtime.RuntimeData;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.MethodVisitor;
import warren.runtime.Conf;

/** Line and branch coverage is JaCoCo's: the same probes are executed by the same program, and the same are counted for the same. */
class JacocoTest {
    private static final String JAVA = System.getProperty("java.home");
    private static final String[] PROGRAMS = {"Branches", "Modern", "Filtered"};

    /** Covered and all, of one class. */
    record Counters(int instructions, int ofInstructions, int branches, int ofBranches, int lines, int ofLines, int methods, int ofMethods) {
        static Counters of(IClassCoverage c) {
            ICounter i = c.getInstructionCounter(), b = c.getBranchCounter(), l = c.getLineCounter(), m = c.getMethodCounter();
            return new Counters(i.getCoveredCount(), i.getTotalCount(), b.getCoveredCount(), b.getTotalCount(), l.getCoveredCount(),
                    l.getTotalCount(), m.getCoveredCount(), m.getTotalCount());
        }
    }

    /** One class of a table, read from docs/formats.md alone. */
    static final class Listed {
        final long id;
        final String name;
        final int first;
        final int probes;
        final List<List<String>> methods = new ArrayList<>();

        Listed(String line) {
            String[] w = line.split(" ");
            id = Long.parseUnsignedLong(w[1], 16);
            name = w[2];
            first = Integer.parseInt(w[4]);
            probes = Integer.parseInt(w[5]);
        }

        Counters count(boolean[] map) {
            int i = 0, ofI = 0, b = 0, ofB = 0, m = 0;
            Map<Integer, Boolean> lines = new HashMap<>();
            for (List<String> method : methods) {
                boolean any = false;
                for (String item : method) {
                    String[] w = item.split(" ", -1);
                    int n = Integer.parseInt(w[1]);
                    String[] ends = w[2].split("\\|", -1);
                    int hit = 0;
                    for (String end : ends) {
                        hit += Stream.of(end.split(",")).anyMatch(p -> !p.isEmpty() && map[Integer.parseInt(p)]) ? 1 : 0;
                    }
                    ofI += n;
                    i += hit > 0 ? n : 0;
                    if (ends.length > 1) {
                        ofB += ends.length;
                        b += hit;
                    }
                    if (!w[0].equals("-1")) {
                        lines.merge(Integer.parseInt(w[0]), hit > 0, Boolean::logicalOr);
                    }
                    any |= hit > 0;
                }
                m += any ? 1 : 0;
            }
            int covered = (int) lines.values().stream().filter(x -> x).count();
            return new Counters(i, ofI, b, ofB, covered, lines.size(), m, methods.size());
        }
    }

    static Map<String, Listed> read(String table) {
        Map<String, Listed> all = new LinkedHashMap<>();
        Listed at = null;
        String[] lines = table.split("\n");
        assertTrue(lines[0].startsWith("warren-probes 1 "), lines[0]);
        for (String line : lines) {
            if (line.startsWith("class ")) {
                at = new Listed(line);
                all.put(at.name, at);
            } else if (line.startsWith("method ")) {
                at.methods.add(new ArrayList<>());
            } else if (at != null) {
                at.methods.get(at.methods.size() - 1).add(line);
            }
        }
        return all;
    }

    private static Map<String, byte[]> samples(String program) throws IOException {
        Map<String, byte[]> classes = new TreeMap<>();
        try (Stream<Path> files = Files.list(Path.of(Slot.testClasses(), "sample"))) {
            for (Path file : files.toList()) {
                String name = file.getFileName().toString().replaceAll("\\.class$", "");
                if (name.equals(program) || name.startsWith(program + "$")) {
                    classes.put("sample/" + name, Files.readAllBytes(file));
                }
            }
        }
        return classes;
    }

    private static Map<String, Listed> tabled(Map<String, byte[]> classes) throws IOException {
        ProbeTable table = new ProbeTable();
        classes.values().forEach(table::add);
        StringWriter text = new StringWriter();
        table.write(text);
        return read(text.toString());
    }

    private static Map<String, Counters> jacocos(Map<String, byte[]> classes, ExecutionDataStore executed) throws IOException {
        Map<String, Counters> all = new TreeMap<>();
        for (Map.Entry<String, byte[]> c : classes.entrySet()) {
            CoverageBuilder builder = new CoverageBuilder();
            new Analyzer(executed, builder).analyzeClass(c.getValue(), c.getKey());
            builder.getClasses().forEach(k -> all.put(k.getName(), Counters.of(k)));
        }
        return all;
    }

    static Stream<String> programs() {
        return Stream.of(PROGRAMS);
    }

    /** A program under real JaCoCo and the same under ours: probe for probe, and every count of every class. */
    @ParameterizedTest
    @MethodSource("programs")
    void aProgramCoversWhatJacocoSays(String program, @TempDir Path dir) throws Exception {
        Map<String, byte[]> classes = samples(program);
        ExecutionDataStore executed = underJacoco(classes, "sample." + program);

        Path in = dir.resolve("in.jar");
        try (ZipOutputStream zip = new ZipOutputStream(Files.newOutputStream(in))) {
            for (Map.Entry<String, byte[]> c : classes.entrySet()) {
                zip.putNextEntry(new ZipEntry(c.getKey() + ".class"));
                zip.write(c.getValue());
            }
        }
        File out = dir.resolve("out.jar").toFile();
        Path table = dir.resolve("table");
        Map<String, Listed> listed;
        byte[] map;
        try (Slot slot = new Slot(dir, "include sample.**", "instrumented " + out)) {
            Process p = new ProcessBuilder(JAVA + "/bin/java", "-cp", Slot.jar("agent") + File.pathSeparator + Slot.jar("runtime"),
                    "warren.agent.Instrument", "measure", slot.dir.resolve("agent.conf").toString(), table.toString(), in.toString(),
                    out.getPath()).redirectErrorStream(true).start();
            String said = new String(p.getInputStream().readAllBytes());
            assertEquals(0, p.waitFor(), said);
            assertFalse(said.contains("warning"), said);
            Files.write(dir.resolve("probes.map"), new byte[8192]);
            String ran = slot.run(JAVA, out.getPath(), "sample." + program, "5");
            assertTrue(ran.startsWith("0\n"), ran);
            listed = read(Files.readString(table));
            map = Files.readAllBytes(dir.resolve("probes.map"));
        }
        int hit = 0;
        Map<String, Counters> want = jacocos(classes, executed);
        for (Listed c : listed.values()) {
            ExecutionData theirs = executed.get(c.id);
            boolean[] ours = new boolean[c.probes];
            for (int i = 0; i < ours.length; i++) {
                ours[i] = map[c.first + i] != 0;
                hit += ours[i] ? 1 : 0;
            }
            if (theirs != null) {
                assertArrayEquals(theirs.getProbes(), ours, c.name);
            }
            assertEquals(want.get(c.name), c.count(ours), c.name);
        }
        assertTrue(hit > 20, "probes executed: " + hit);
        assertTrue(listed.keySet().containsAll(want.keySet()), listed.keySet() + " " + want.keySet());
    }

    private static ExecutionDataStore underJacoco(Map<String, byte[]> classes, String main) throws Exception {
        LoggerRuntime runtime = new LoggerRuntime();
        RuntimeData data = new RuntimeData();
        runtime.startup(data);
        Map<String, byte[]> changed = new HashMap<>();
        for (Map.Entry<String, byte[]> c : classes.entrySet()) {
            changed.put(c.getKey().replace('/', '.'), new Instrumenter(runtime).instrument(c.getValue(), c.getKey()));
        }
        ClassLoader loader = new ClassLoader(null) {
            @Override
            protected Class<?> findClass(String name) throws ClassNotFoundException {
                byte[] bytes = changed.get(name);
                if (bytes == null) {
                    throw new ClassNotFoundException(name);
                }
                return defineClass(name, bytes, 0, bytes.length);
            }
        };
        PrintStream out = System.out;
        System.setOut(new PrintStream(new ByteArrayOutputStream()));
        try {
            loader.loadClass(main).getMethod("main", String[].class).invoke(null, (Object) new String[] {"5"});
        } finally {
            System.setOut(out);
        }
        ExecutionDataStore executed = new ExecutionDataStore();
        data.collect(executed, new SessionInfoStore(), false);
        runtime.shutdown();
        return executed;
    }

    /** Whole libraries, as several compilers made them, with probes drawn at random: the same probes, and every count of every class. */
    @Test
    void librariesAreCountedAsJacocoCountsThem() throws Exception {
        Set<Path> jars = new HashSet<>();
        for (Class<?> c : List.of(ClassReader.class, Analyzer.class, Test.class, org.junit.jupiter.engine.JupiterTestEngine.class)) {
            jars.add(Path.of(c.getProtectionDomain().getCodeSource().getLocation().toURI()));
        }
        Path repository = Path.of(System.getProperty("user.home"), ".m2/repository");
        for (String jar : System.getProperty("warren.jars", "org/apache/zookeeper/zookeeper/3.6.3/zookeeper-3.6.3.jar").split(":")) {
            if (Files.exists(repository.resolve(jar))) {
                jars.add(repository.resolve(jar));
            }
        }
        int compared = 0;
        List<String> wrong = new ArrayList<>();
        Random random = new Random(1);
        for (Path jar : jars) {
            Map<String, byte[]> classes = new TreeMap<>();
            try (ZipFile zip = new ZipFile(jar.toFile())) {
                for (ZipEntry e : java.util.Collections.list(zip.entries())) {
                    if (e.getName().endsWith(".class") && !e.getName().startsWith("META-INF") && !e.getName().endsWith("-info.class")) {
                        classes.put(e.getName().replaceAll("\\.class$", ""), zip.getInputStream(e).readAllBytes());
                    }
                }
            }
            // JaCoCo has more filters for Kotlin's classes, which are not ours (docs/coverage.md).
            classes.keySet().removeIf(name -> name.contains("Kt$") || name.endsWith("Kt"));
            for (Listed c : tabled(classes).values()) {
                boolean[] drawn = new boolean[c.probes];
                for (int i = 0; i < drawn.length; i++) {
                    drawn[i] = random.nextInt(3) == 0;
                }
                ExecutionDataStore executed = new ExecutionDataStore();
                executed.put(new ExecutionData(c.id, c.name, drawn));
                Counters want;
                try {
                    want = jacocos(Map.of(c.name, classes.get(c.name)), executed).get(c.name);
                } catch (IOException e) {
                    wrong.add(c.name + ": " + e.getCause());
                    continue;
                }
                Counters have = c.count(drawn);
                compared++;
                if (!java.util.Objects.equals(want, have)) {
                    wrong.add(c.name + "\n    want " + want + "\n    have " + have);
                }
            }
        }
        assertEquals(List.of(), wrong, () -> wrong.size() + " wrong: " + String.join("\n", wrong));
        assertTrue(compared > 500, "classes: " + compared);
    }

    /** The search's own probes stay, the table says what is not counted, and the other method is. */
    @Test
    void aMethodTooLargeForTheseProbesKeepsTheOthers() throws Exception {
        ProbeTable table = new ProbeTable();
        AppClass changed = AppClass.transform("old/Big", InstrumentTest.classWithBranches(4000), Conf.parse(new String[] {"version 1", "include **"}, "test"), table);
        assertTrue(!changed.failed && changed.warnings.isEmpty(), changed.warnings.toString());
        StringWriter text = new StringWriter();
        table.write(text);
        assertTrue(text.toString().contains("\nnote method old.Big.big(I)I counts as never executed"), text.toString().substring(0, 200));
        Map<String, Integer> search = new HashMap<>();
        Map<String, Integer> exact = new HashMap<>();
        new ClassReader(changed.bytes).accept(new ClassVisitor(AppClass.API) {
            @Override
            public MethodVisitor visitMethod(int access, String method, String desc, String sig, String[] exceptions) {
                return new MethodVisitor(AppClass.API) {
                    @Override
                    public void visitMethodInsn(int opcode, String owner, String name, String d, boolean itf) {
                        (owner.equals("warren/runtime/Cov") ? search : exact).merge(method, 1, Integer::sum);
                    }
                };
            }
        }, 0);
        assertTrue(search.get("big") > 3999, search.toString());
        assertEquals(Map.of("small", 7), exact, "three jumps, three ways to fall through, the return");
    }

    /** Every class of a library verifies with these probes in it. */
    @Test
    void librariesVerify(@TempDir Path dir) throws Exception {
        List<String> command = new ArrayList<>(List.of(JAVA + "/bin/java", "-cp", Slot.jar("agent") + File.pathSeparator + Slot.jar("runtime"),
                "warren.agent.Instrument", "measure", dir.resolve("all.conf").toString(), dir.resolve("table").toString()));
        Files.writeString(dir.resolve("all.conf"), "version 1\ninclude **\n");
        List<String> args = new ArrayList<>(List.of("sample.LoadAll"));
        String zookeeper = System.getProperty("user.home") + "/.m2/repository/org/apache/zookeeper/zookeeper/3.6.3/zookeeper-3.6.3.jar";
        for (Class<?> c : List.of(ClassReader.class, Analyzer.class, org.junit.jupiter.engine.JupiterTestEngine.class)) {
            args.add(Path.of(c.getProtectionDomain().getCodeSource().getLocation().toURI()).toString());
        }
        // Three libraries of these tests, and a whole system where its jar happens to be on the machine.
        int least = 150;
        if (Files.exists(Path.of(zookeeper))) {
            args.add(zookeeper);
            least = 300;
        }
        for (int i = 1; i < args.size(); i++) {
            command.add(args.get(i));
            args.set(i, dir.resolve(i + ".jar").toString());
            command.add(args.get(i));
        }
        Process p = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(p.getInputStream().readAllBytes());
        assertEquals(0, p.waitFor(), said);
        try (Slot slot = new Slot(dir, "include none.**")) {
            String out = slot.run(JAVA, Slot.testClasses() + File.pathSeparator + String.join(File.pathSeparator, args.subList(1, args.size())),
                    args.toArray(new String[0]));
            String last = out.lines().filter(l -> l.startsWith("linked ")).findFirst().orElse(out);
            assertTrue(last.endsWith(" errors 0"), out);
            assertTrue(Integer.parseInt(last.split(" ")[1]) > least, last);
        }
    }
}
