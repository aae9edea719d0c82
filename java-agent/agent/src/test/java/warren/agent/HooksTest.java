package warren.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The table of docs/hooks.md, cell by cell, on every JDK at hand: annotated targets give exactly the points their comments say. */
class HooksTest {
    static Stream<String> javas() {
        return Slot.javas().stream();
    }

    private static Map<String, List<String>> expected(String file) throws Exception {
        Map<String, List<String>> expected = new LinkedHashMap<>();
        String method = "";
        for (String line : Files.readAllLines(Path.of("src/test/java8/sample", file))) {
            if (line.startsWith("    static void ") || line.startsWith("    private static void ")) {
                method = line.replaceAll("^.*void ", "").replaceAll("\\(.*$", "");
            } else if (line.contains("// point: ")) {
                expected.computeIfAbsent(method, m -> new ArrayList<>()).add(line.replaceAll("^.*// point: ", ""));
            }
        }
        return expected;
    }

    @ParameterizedTest
    @MethodSource("javas")
    void files(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, "include sample.**")) {
            String out = slot.run(java, Slot.testClasses(), "sample.Disk");
            assertTrue(out.startsWith("0\n"), out);
            assertEquals(2, slot.header(Slot.AGENT_STATE), () -> slot.warnings().toString());
            Map<String, List<String>> seen = new LinkedHashMap<>();
            for (Slot.Event e : slot.events()) {
                seen.computeIfAbsent(e.method(), m -> new ArrayList<>()).add(e.toString().strip());
            }
            Map<String, List<String>> expected = expected("Disk.java");
            // the file behind a setLength is known only where the method has a body of its own
            seen.computeIfPresent("random", (m, l) -> {
                l.replaceAll(x -> x.startsWith("truncate before") ? "truncate before *" : x);
                return l;
            });
            assertEquals(expected, seen);
            assertEquals(0, slot.header(Slot.ERRORS));
            assertEquals(List.of(), slot.warnings());
            assertEquals(2, slot.events("deep").stream().map(Slot.Event::stack).distinct().count(), "told apart below 40 frames");
            assertEquals(5, slot.events("stream").get(3).bytes());
            assertEquals(List.of(1, 2, 3), slot.events("channel").stream().filter(e -> e.kind().equals("write")).map(Slot.Event::n).toList());
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void sockets(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, "include sample.**")) {
            String out = slot.run(java, Slot.testClasses(), "sample.Talk");
            assertTrue(out.startsWith("0\n"), out);
            List<String> from = out.lines().filter(l -> l.startsWith("from ")).toList();
            assertEquals(List.of("from 127.0.0.11", "from 127.0.0.11", "from 127.0.0.11", "from 127.0.0.11", "from 127.0.0.99",
                    "from 127.0.0.11"), from, "outgoing sockets leave from the node's address");
            assertEquals(1, slot.header(Slot.UNBOUND), "the one that was bound elsewhere");
            Map<String, List<String>> seen = new LinkedHashMap<>();
            for (Slot.Event e : slot.events()) {
                if (!e.peer().startsWith("127.0.0.12:")) {
                    continue; // what the accepting side sends: it has the address of this node as its peer
                }
                String caller = e.frames().get(e.frames().size() > 2 ? 1 : 0);
                String method = caller.substring(caller.lastIndexOf('.') + 1, caller.indexOf(':'));
                seen.computeIfAbsent(method, m -> new ArrayList<>()).add(e.toString().strip());
            }
            assertEquals(expected("Talk.java"), seen);
            assertEquals(0, slot.header(Slot.ERRORS));
            assertTrue(slot.header(Slot.BYTES_SENT) >= 16 && slot.header(Slot.BYTES_RECEIVED) == 5, "bytes are counted");
        }
    }

    /** The second JVM takes the changed classes from the file the first one left, and is hooked just the same. */
    @org.junit.jupiter.api.Test
    void keptClassesAreUsedAndABrokenFileIsNot(@TempDir Path dir) throws Exception {
        File[] kept = Slot.jar("agent").getParentFile().listFiles((d, n) -> n.contains(".jre-"));
        for (File file : kept) {
            assertTrue(file.delete());
        }
        String java = System.getProperty("java.home");
        List<List<Long>> all = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            Path mine = Files.createDirectories(dir.resolve("r" + i));
            try (Slot slot = new Slot(mine, "exclude **", "instrumented " + Slot.testClasses())) {
                slot.verifyAll = i != 1; // it switches the class data archive off: the file does not depend on it
                String out = slot.run(java, Slot.testClasses(), "-Xlog:class+load", "sample.Disk");
                assertTrue(out.startsWith("0\n"), out);
                assertEquals(i != 1, out.contains("warren.agent.asm.ClassReader"), "run " + i + ": ASM is loaded only without the file");
                all.add(slot.events().stream().map(Slot.Event::stack).toList());
            }
            kept = Slot.jar("agent").getParentFile().listFiles((d, n) -> n.contains(".jre-"));
            assertEquals(1, kept.length);
            if (i == 1) {
                Files.write(kept[0].toPath(), new byte[] {0, 0, 0, 1, 2, 3});
            }
        }
        assertEquals(all.get(0), all.get(1));
        assertEquals(all.get(0), all.get(2));
    }

    /** The same program gives the same stack ids whatever the JDK. */
    @org.junit.jupiter.api.Test
    void stackIdsAreTheSameOnEveryJdk(@TempDir Path dir) throws Exception {
        List<List<Long>> all = new ArrayList<>();
        List<String> javas = new ArrayList<>(Slot.javas());
        javas.add(System.getProperty("java.home"));
        for (String java : javas) {
            Path mine = Files.createDirectories(dir.resolve("j" + all.size()));
            try (Slot slot = new Slot(mine, "include sample.**")) {
                slot.run(java, Slot.testClasses(), "sample.Disk");
                all.add(slot.events().stream().map(Slot.Event::stack).toList());
            }
        }
        assertTrue(all.get(0).size() > 20);
        for (List<Long> other : all) {
            assertEquals(all.get(0), other);
        }
    }
}
