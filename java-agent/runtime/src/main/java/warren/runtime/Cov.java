package warren.runtime;

import java.io.File;
import java.io.IOException;

/**
 * Coverage: {@link #hit} is called at the start of every basic block of an instrumented class. A slot of the shared map is 0 or 1
 * and all nodes share one map, so each JVM stores a slot once and remembers on its own heap that it did.
 */
public final class Cov {
    // Until start() runs, every id falls on one slot that is "seen": instrumented code works without a page.
    private static byte[] seen = {1};
    private static int mask;
    private static Mem map;

    private Cov() {}

    static void start(File file, int size) throws IOException {
        if (size < 1 || Integer.bitCount(size) != 1) {
            throw new IOException("MAP_SIZE of the run page is " + size + ": not a power of two");
        }
        Mem mem = Mem.map(file);
        map = mem;
        seen = new byte[size];
        mask = size - 1;
    }

    /** The probe. No branch but one, nothing that can throw in a running JVM. */
    public static void hit(int id) {
        byte[] s = seen;
        int slot = id & (s.length - 1);
        if (s[slot] == 0) {
            s[slot] = 1;
            first(slot);
        }
    }

    private static void first(int slot) {
        map.putByte(slot, (byte) 1);
    }

    static int mask() {
        return mask;
    }
}
