package sample;

import java.util.ArrayList;
import java.util.List;

/** Code shapes that a probe can break: constructors with branches in their arguments, loops that start with NEW, switches, handlers. */
public class Branches {
    final int a;
    final String b;

    Branches(int a, String b) {
        this.a = a;
        this.b = b;
    }

    Branches(int a) {
        this(a > 3 ? a : -a, a > 4 ? "big" : new StringBuilder(a > 1 ? "x" : "y").toString());
    }

    static int loop(int n) {
        int sum = 0;
        do {
            sum += new Branches(n > 2 ? n : 7, n % 2 == 0 ? "even" : null).a;
        } while (--n > 0);
        while (sum > 0) {
            new Branches(sum > 5 ? 1 : 2);
            sum -= 3;
        }
        for (;;) {
            Object o = new Object[] {new Branches(sum < 0 ? 3 : 4), sum++};
            if (sum > 3 && o != null) {
                return sum;
            }
        }
    }

    static String select(int n, Object o) {
        try {
            switch (n) {
                case 0: return "zero";
                case 1: case 2: return "few";
                case 1000: return o.toString();
                default: break;
            }
            synchronized (Branches.class) {
                switch (o instanceof String ? (String) o : "none") {
                    case "one": return "1";
                    case "two": return new String(n > 5 ? "2" : "two");
                    default: throw new IllegalArgumentException();
                }
            }
        } catch (NullPointerException | IllegalArgumentException e) {
            return "caught";
        } finally {
            LIST.add(n);
        }
    }

    static final List<Integer> LIST = new ArrayList<>();

    interface WithDefault {
        default int twice(int x) {
            return x > 0 ? 2 * x : 0;
        }
    }

    enum Colour { RED, GREEN { @Override int f() { return 2; } }; int f() { return 1; } }

    public static void main(String[] args) {
        int n = args.length > 0 ? Integer.parseInt(args[0]) : 5;
        Runnable r = () -> System.out.println(loop(n) + select(n, "two") + select(1000, null) + select(0, null) + select(9, "x"));
        r.run();
        System.out.println(new WithDefault() {}.twice(n) + Colour.GREEN.f());
        if (n > 100) {
            System.out.println("only with more than a hundred");
        }
    }
}
