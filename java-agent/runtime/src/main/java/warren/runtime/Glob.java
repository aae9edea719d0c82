package warren.runtime;

/** Globs of class names, {@code class.method} frames and paths: {@code *} (and {@code **}) is any run of characters. Pure. */
public final class Glob {
    private Glob() {}

    public static boolean matches(String glob, String text) {
        int g = 0;
        int t = 0;
        int star = -1;
        int mark = 0;
        while (t < text.length()) {
            if (g < glob.length() && glob.charAt(g) == '*') {
                star = g++;
                mark = t;
            } else if (g < glob.length() && glob.charAt(g) == text.charAt(t)) {
                g++;
                t++;
            } else if (star >= 0) {
                g = star + 1;
                t = ++mark;
            } else {
                return false;
            }
        }
        while (g < glob.length() && glob.charAt(g) == '*') {
            g++;
        }
        return g == glob.length();
    }

    /** True if any of the globs matches. */
    public static boolean any(String[] globs, String text) {
        for (String glob : globs) {
            if (matches(glob, text)) {
                return true;
            }
        }
        return false;
    }

    /** True if the globs occur in this order among the frames (gaps allowed). No globs match every stack. */
    public static boolean inOrder(String[] globs, String[] frames) {
        int g = 0;
        for (int f = 0; f < frames.length && g < globs.length; f++) {
            if (matches(globs[g], frames[f])) {
                g++;
            }
        }
        return g == globs.length;
    }
}
