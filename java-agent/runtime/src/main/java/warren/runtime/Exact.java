package warren.runtime;

import java.io.File;
import java.io.IOException;

/**
 * Line and branch coverage (docs/coverage.md): what classes call that were instrumented for {@code --coverage-report}, and no others. One
 * byte of {@code probes.map} a probe, numbered without gaps over all classes, so none shares its byte with another. A byte is stored once
 * per JVM, as in {@link Cov}.
 *
 * <p>A probe on the taken branch of a conditional jump or a switch is a call just before it, with copies of what the jump looks at: no
 * branch and no frame are added to the method.
 */
public final class Exact {
    // Until start() runs, every probe falls on one byte that is "seen".
    private static byte[] seen = {1};
    private static Mem map;

    private Exact() {}

    /** Without the file nothing is counted. */
    static void start(File file) throws IOException {
        long size = file.length();
        if (size == 0) {
            return;
        }
        if (Long.bitCount(size) != 1) {
            throw new IOException(file + " has " + size + " bytes: not a power of two");
        }
        map = Mem.map(file);
        seen = new byte[(int) size];
    }

    public static void hit(int probe) {
        byte[] s = seen;
        int slot = probe & (s.length - 1);
        if (s[slot] == 0) {
            s[slot] = 1;
            map.putByte(slot, (byte) 1);
        }
    }

    public static void ifeq(int a, int probe) {
        if (a == 0) {
            hit(probe);
        }
    }

    public static void ifne(int a, int probe) {
        if (a != 0) {
            hit(probe);
        }
    }

    public static void iflt(int a, int probe) {
        if (a < 0) {
            hit(probe);
        }
    }

    public static void ifge(int a, int probe) {
        if (a >= 0) {
            hit(probe);
        }
    }

    public static void ifgt(int a, int probe) {
        if (a > 0) {
            hit(probe);
        }
    }

    public static void ifle(int a, int probe) {
        if (a <= 0) {
            hit(probe);
        }
    }

    public static void icmpeq(int a, int b, int probe) {
        if (a == b) {
            hit(probe);
        }
    }

    public static void icmpne(int a, int b, int probe) {
        if (a != b) {
            hit(probe);
        }
    }

    public static void icmplt(int a, int b, int probe) {
        if (a < b) {
            hit(probe);
        }
    }

    public static void icmpge(int a, int b, int probe) {
        if (a >= b) {
            hit(probe);
        }
    }

    public static void icmpgt(int a, int b, int probe) {
        if (a > b) {
            hit(probe);
        }
    }

    public static void icmple(int a, int b, int probe) {
        if (a <= b) {
            hit(probe);
        }
    }

    public static void acmpeq(Object a, Object b, int probe) {
        if (a == b) {
            hit(probe);
        }
    }

    public static void acmpne(Object a, Object b, int probe) {
        if (a != b) {
            hit(probe);
        }
    }

    public static void ifnull(Object a, int probe) {
        if (a == null) {
            hit(probe);
        }
    }

    public static void ifnonnull(Object a, int probe) {
        if (a != null) {
            hit(probe);
        }
    }

    /**
     * A switch. {@code ways}: one character for the default, then three for each key, rising: the key's halves and where it leads. Where:
     * 0 to no probe, else to {@code first} plus that less one.
     */
    public static void select(int key, int first, String ways) {
        int way = ways.charAt(0);
        int low = 0;
        int high = ways.length() / 3 - 1;
        while (low <= high) {
            int middle = (low + high) >>> 1;
            int at = 1 + 3 * middle;
            int there = ways.charAt(at) << 16 | ways.charAt(at + 1);
            if (there == key) {
                way = ways.charAt(at + 2);
                break;
            }
            if (there < key) {
                low = middle + 1;
            } else {
                high = middle - 1;
            }
        }
        if (way > 0) {
            hit(first + way - 1);
        }
    }
}
