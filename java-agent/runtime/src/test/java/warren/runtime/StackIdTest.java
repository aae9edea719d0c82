package warren.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The vectors shared with Rust. */
class StackIdTest {
    @Test
    void vectors() throws Exception {
        Path file = Path.of("..", "vectors", "stackid.txt");
        int checked = 0;
        String name = "";
        List<String> raw = new ArrayList<>();
        List<String> kept = new ArrayList<>();
        for (String line : Files.readAllLines(file)) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "vector" -> {
                    name = line;
                    raw.clear();
                    kept.clear();
                }
                case "raw" -> raw.addAll(List.of(words[1], words[2], words[3]));
                case "kept" -> kept.add(words[1]);
                case "id" -> {
                    String[] both = StackId.filter(raw.toArray(new String[0]));
                    List<String> frames = new ArrayList<>();
                    for (int i = 0; i < both.length; i += 2) {
                        frames.add(both[i]);
                        assertTrue(both[i + 1].startsWith(both[i] + ":"), name);
                    }
                    assertEquals(kept, frames, name);
                    assertEquals(words[1], String.format("%016x", StackId.of(frames.toArray(new String[0]))), name);
                    checked++;
                }
                default -> assertTrue(line.isEmpty() || line.startsWith("#"), line);
            }
        }
        assertTrue(checked >= 8, "only " + checked + " vectors");
    }
}
