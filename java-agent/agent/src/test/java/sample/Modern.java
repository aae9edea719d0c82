package sample;

import java.util.List;
import java.util.stream.Collectors;

/** Code shapes of newer compilers that a probe can break: records, switch expressions, patterns, joined strings. Not for Java 8 and 11. */
public class Modern {
    record Pair(int x, String y) {
        Pair {
            y = x > 3 ? y : y + x;
        }
    }

    sealed interface Shape permits Dot, Line {}

    record Dot(int at) implements Shape {}

    record Line(int from, int to) implements Shape {}

    static String select(int n, Object o) {
        synchronized (Modern.class) {
            return switch (o instanceof String s && n > 0 ? s : "none") {
                case "one" -> "1";
                case "two" -> new String(n > 5 ? "2" : "two");
                case "none" -> {
                    String text = n + " of " + o;
                    yield text.isEmpty() ? "" : text;
                }
                default -> throw new IllegalArgumentException();
            };
        }
    }

    static int length(Shape s) {
        if (s instanceof Line l && l.to > l.from) {
            return l.to - l.from;
        }
        return s instanceof Dot d ? 0 * d.at : -1;
    }

    static String all(int n) {
        return List.of(1, n, 3).stream().filter(x -> x > 2).map(x -> "<" + x + ">").collect(Collectors.joining());
    }

    public static void main(String[] args) {
        int n = args.length > 0 ? Integer.parseInt(args[0]) : 5;
        System.out.println(select(n, "two") + select(n, 'x') + select(0, "one") + new Pair(n, "p") + new Pair(1, "q"));
        System.out.println(length(new Dot(n)) + length(new Line(1, n)) + length(new Line(n, 1)) + all(n));
        try {
            select(n, "three");
        } catch (IllegalArgumentException e) {
            System.out.println("caught");
        }
        if (n > 100) {
            System.out.println("only with more than a hundred");
        }
    }
}
