package warren.runtime;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;

/**
 * Which frames of a stack count, and the id they give (docs/formats.md section 4; vectors in java-agent/vectors/stackid.txt).
 * Pure; called by {@link Stacks} once per distinct stack.
 */
public final class StackId {
    private static final int CAP = 64;
    private static final String[] FOREIGN = {"java.", "javax.", "jdk.", "sun.", "com.sun.", "warren."};
    private static final String[] GENERATED = {
        "$$Lambda", "$Proxy", "GeneratedMethodAccessor", "GeneratedConstructorAccessor", "$$EnhancerBy", "$$FastClassBy"
    };

    private StackId() {}

    /** True for a frame of the target's own code. */
    public static boolean kept(String className) {
        for (String prefix : FOREIGN) {
            if (className.startsWith(prefix)) {
                return false;
            }
        }
        for (String part : GENERATED) {
            if (className.contains(part)) {
                return false;
            }
        }
        return true;
    }

    /** {@code lambda$name$7} -> {@code lambda$name}: the number depends on the order of lambdas in the source. */
    public static String method(String name) {
        if (!name.startsWith("lambda$")) {
            return name;
        }
        int end = name.length();
        while (end > 0 && name.charAt(end - 1) >= '0' && name.charAt(end - 1) <= '9') {
            end--;
        }
        return end < name.length() && end > 7 && name.charAt(end - 1) == '$' ? name.substring(0, end - 1) : name;
    }

    /**
     * Filters a raw stack.
     *
     * @param raw class, method, line in turn, innermost first
     * @return {@code class.method} and {@code class.method:line} in turn: kept frames, repeats once, at most 64
     */
    public static String[] filter(String[] raw) {
        ArrayList<String> out = new ArrayList<>();
        String last = null;
        for (int i = 0; i + 2 < raw.length && out.size() < 2 * CAP; i += 3) {
            if (!kept(raw[i])) {
                continue;
            }
            String frame = raw[i].concat(".").concat(method(raw[i + 1]));
            if (frame.equals(last)) {
                continue;
            }
            last = frame;
            out.add(frame);
            out.add(frame.concat(":").concat(raw[i + 2]));
        }
        return out.toArray(new String[0]);
    }

    /** The id of filtered frames ({@code class.method}, innermost first). */
    public static long of(String[] frames) {
        long h = Fnv.OFFSET;
        for (String frame : frames) {
            h = Fnv.add(Fnv.add(h, frame.getBytes(StandardCharsets.UTF_8)), '\n');
        }
        return h;
    }
}
