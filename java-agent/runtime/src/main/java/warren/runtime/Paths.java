package warren.runtime;

import java.util.concurrent.ConcurrentHashMap;

/**
 * Which files matter: the node's own logs, /proc, /dev and /sys (unless the node's folder lies there, as in /dev/shm), and the JVM's own
 * files make no points. The answer is kept per path,
 * so that the filter costs one look-up. Called by {@link Points} before any stack is walked.
 */
final class Paths {
    /** A file without a path (made from a descriptor). */
    static final Paths UNKNOWN = new Paths(true, 0);

    private static final int LIMIT = 1 << 14;
    private static final ConcurrentHashMap<String, Paths> KNOWN = new ConcurrentHashMap<>();

    final boolean point;
    /** Offset + 1 of the path's text in INTERN, or 0. */
    final int text;

    private Paths(boolean point, int text) {
        this.point = point;
        this.text = text;
    }

    static Paths of(String path) {
        Paths known = KNOWN.get(path);
        if (known == null) {
            boolean point = isPoint(path, Link.folder, Link.conf.logs);
            known = new Paths(point, point ? Intern.text(relative(path, Link.folder)) : 0);
            if (KNOWN.size() < LIMIT) {
                KNOWN.put(path, known);
            }
        }
        return known;
    }

    static boolean isPoint(String path, String folder, String[] logs) {
        String absolute = path.startsWith("/") ? path : folder.concat(path);
        boolean system = absolute.startsWith("/proc/") || absolute.startsWith("/dev/") || absolute.startsWith("/sys/");
        if (system && !absolute.startsWith(folder) || absolute.contains("/hsperfdata_")) {
            return false;
        }
        return !Glob.any(logs, absolute) && !Glob.any(logs, relative(path, folder));
    }

    /** The path below the node's folder where it lies in it, else as it is. */
    static String relative(String path, String folder) {
        return path.startsWith(folder) ? path.substring(folder.length()) : path;
    }
}
