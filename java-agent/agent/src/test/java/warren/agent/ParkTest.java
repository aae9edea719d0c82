package warren.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** A JVM that waits before its program's first line, and has run none of it. */
class ParkTest {
    static List<String> javas() {
        return Slot.javas();
    }

    private static int feature(String java) {
        return Integer.parseInt(Slot.version(new File(java)));
    }

    /** As executor/src/run/made_once/hot.rs gives them. */
    private static String[] flags(String java) {
        List<String> flags = new ArrayList<>(List.of("-XX:+UnlockDiagnosticVMOptions", "-XX:+WhiteBoxAPI"));
        if (feature(java) >= 24) {
            flags.add("--enable-native-access=ALL-UNNAMED");
        }
        flags.add("sample.Parked");
        return flags.toArray(new String[0]);
    }

    private static String library() {
        // cargo test gives it: build.rs makes it with a C compiler
        String library = System.getProperty("warren.park");
        assumeTrue(library != null, "-Dwarren.park=libwarren-park.so is not given");
        return library;
    }

    /** Name of the list, none before Java 11: its JVM logs nothing that one could be made of (LOWEST_JAVA in hot.rs). */
    private static String list(String java, Path dir) throws IOException {
        if (feature(java) < 11) {
            return "";
        }
        return "" + Files.writeString(dir.resolve("list"), "no.Such\nno.Such thing\nsample.Parked$Loud\nsample.Parked$Loud say\n"
                + "sample.Parked$Above more\nsample.Parked$Quiet twice\njava.lang.Object hashCode\njava.lang.Object equals\n");
    }

    @ParameterizedTest
    @MethodSource("javas")
    void oneThatDoesNotWaitGoesOnByItself(String java, @TempDir Path dir) throws Exception {
        String library = library();
        try (Slot slot = new Slot(dir, "include sample.**", "instrumented " + Slot.testClasses())) {
            Path asked = slot.node.resolve(".ahead");
            Files.writeString(asked, list(java, dir) + "\n" + library + "\n");
            Slot.Child child = slot.start(java, Slot.testClasses(), flags(java));
            assertEquals(List.of("main", "loud", "8"), List.of(child.line(), child.line(), child.line()));
            assertFalse(Files.exists(asked), "asked once");
        }
    }

    /** The workload's JVM: no page, no hook, and without a wish nothing at all. */
    @ParameterizedTest
    @MethodSource("javas")
    void theWorkloadDoesItAndNothingElse(String java, @TempDir Path dir) throws Exception {
        String library = library();
        try (Slot slot = new Slot(dir, "include sample.**")) {
            slot.agentArgs = "ahead";
            List<String> own = List.of("main", "loud", "8");
            assertEquals(own, slot.run(java, Slot.testClasses(), flags(java)).lines().skip(1).toList());
            Path asked = slot.node.resolve(".ahead");
            Files.writeString(asked, list(java, dir) + "\n" + library + "\n");
            assertEquals(own, slot.run(java, Slot.testClasses(), flags(java)).lines().skip(1).toList());
            assertFalse(Files.exists(asked), "asked once");
            assertEquals(0, slot.header(Slot.INCARNATION));
        }
    }

    @ParameterizedTest
    @MethodSource("javas")
    void nothingOfTheProgramRunsBeforeItGoesOn(String java, @TempDir Path dir) throws Exception {
        String library = library();
        try (Slot slot = new Slot(dir, "include sample.**", "instrumented " + Slot.testClasses())) {
            Path asked = slot.node.resolve(".park");
            Files.writeString(asked, list(java, dir) + "\n" + library + "\n");
            Slot.Child child = slot.start(java, Slot.testClasses(), flags(java));
            Path waits = slot.node.resolve(".parked");
            assertTrue(Slot.await(() -> Files.exists(waits)), "it waits");
            String compiled = feature(java) < 11 ? "0\n" : "4\n";
            assertEquals(compiled, Files.readString(waits), "say, more, twice and Object.equals; the others are native or not there");
            assertEquals(0, slot.header(Slot.INCARNATION), "it is nobody's yet");
            java.io.InputStream out = child.process.getInputStream();
            String said = new String(out.readNBytes(out.available()), StandardCharsets.UTF_8);
            assertEquals(List.of(), said.lines().toList());
            Files.delete(asked);
            assertEquals(List.of("main", "loud", "8"), List.of(child.line(), child.line(), child.line()));
            assertEquals(1, slot.header(Slot.INCARNATION));
        }
    }
}
