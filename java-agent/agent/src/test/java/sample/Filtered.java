package sample;

import java.io.StringReader;
import java.util.ArrayList;
import java.util.List;

/** What compilers add and JaCoCo does not count: copies of finally blocks, closing of resources, monitors, assertions, switches over texts. */
public class Filtered {
    enum Size { SMALL, LARGE { @Override boolean big() { return true; } }; boolean big() { return false; } }

    record Point(int x, int y) {}

    static final class Tools {
        private Tools() {}

        static int half(int n) {
            assert n >= 0 : "below zero";
            return n / 2;
        }
    }

    static final List<String> LOG = new ArrayList<>();

    static int ends(int n) {
        try {
            if (n > 3) {
                LOG.add("large");
                return n;
            }
            LOG.add("small");
        } catch (IllegalStateException e) {
            LOG.add("never");
        } finally {
            if (LOG.size() > 1) {
                LOG.clear();
            }
            LOG.add("end");
        }
        return -n;
    }

    static String closes(String text, boolean fails) throws Exception {
        try (StringReader a = new StringReader(text); StringReader b = text.isEmpty() ? null : new StringReader(text)) {
            if (fails) {
                throw new IllegalStateException(text);
            }
            return "" + (char) a.read() + (b == null ? '-' : (char) b.read());
        }
    }

    static int word(String text) {
        switch (text) {
            case "one": return 1;
            case "two": return 2;
            case "Aa": case "BB": return 3;
            default: return text.length() > 5 && text.charAt(0) == 'x' || text.isEmpty() ? 9 : 0;
        }
    }

    static int pick(int n) {
        int sum = 0;
        for (int i = n; i > 0; i--) {
            switch (i) {
                case 1: sum += 1;
                case 2: sum += 2; break;
                case 100000: sum += 4; break;
                case -7: case 5: continue;
                default:
            }
            synchronized (LOG) {
                sum += i % 2 == 0 ? 1 : LOG == null ? 3 : 2;
            }
        }
        return sum;
    }

    static String of(Size size) {
        return switch (size) {
            case SMALL -> "s";
            case LARGE -> "l";
        };
    }

    static boolean compare(long a, Object b, Object c) {
        while (a-- > 0) {
            if (b == c || a == 3 && b != null) {
                return c instanceof String s && s.length() > 2;
            }
        }
        do {
            a++;
        } while (a < 0 && c == null);
        return !(b == null | c == null);
    }

    public static void main(String[] args) throws Exception {
        int n = args.length > 0 ? Integer.parseInt(args[0]) : 5;
        System.out.println(ends(n) + ends(2) + word("two") + word("BB") + word("xylophone") + pick(n) + Tools.half(n));
        System.out.println(closes("ab", false) + closes("", false) + of(Size.valueOf("SMALL")) + new Point(n, 1).equals(null) + Size.LARGE.big());
        try {
            closes("c", true);
        } catch (IllegalStateException e) {
            Runnable r = () -> System.out.println(e.getMessage());
            r.run();
        }
        System.out.println(compare(n, "x", "abc") + " " + compare(0, null, n));
    }
}
