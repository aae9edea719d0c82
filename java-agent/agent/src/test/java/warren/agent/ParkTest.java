package warren.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** A JVM that waits before its program's first line, and has run none of it. */
class ParkTest {
    static List<String> javas() {
        return Slot.javas();
    }

    @ParameterizedTest
    @MethodSource("javas")
    void nothingOfTheProgramRunsBeforeItGoesOn(String java, @TempDir Path dir) throws Exception {
        try (Slot slot = new Slot(dir, "include sample.**", "instrumented " + Slot.testClasses())) {
            Path asked = slot.node.resolve(".park");
            Path list = dir.resolve("list");
            Files.writeString(list, "no.Such\nno.Such thing\nsample.Parked$Loud\nsample.Parked$Loud say\nsample.Parked$Above more\n"
                    + "sample.Parked$Quiet twice\njava.lang.Object hashCode\njava.lang.Object equals\n");
            Files.writeString(asked, list + "\n");
            Slot.Child child = slot.start(java, Slot.testClasses(), "-XX:+UnlockDiagnosticVMOptions", "-XX:+WhiteBoxAPI", "sample.Parked");
            Path waits = slot.node.resolve(".parked");
            assertTrue(Slot.await(() -> Files.exists(waits)), "it waits");
            assertEquals("2\n", Files.readString(waits), "Quiet.twice and Object.equals: the others run code or are native");
            assertEquals(0, slot.header(Slot.INCARNATION), "it is nobody's yet");
            // The JVM names each native of WhiteBox that ours does not have.
            java.io.InputStream out = child.process.getInputStream();
            String said = new String(out.readNBytes(out.available()), StandardCharsets.UTF_8);
            assertEquals(List.of(), said.lines().filter(l -> !l.contains("sun.hotspot.WhiteBox")).toList());
            Files.delete(asked);
            assertEquals(List.of("main", "loud", "8"), List.of(child.line(), child.line(), child.line()));
            assertEquals(1, slot.header(Slot.INCARNATION));
        }
    }
}
