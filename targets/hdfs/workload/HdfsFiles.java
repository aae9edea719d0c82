import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What files the workload has made and what may be in them. A file is a row of pieces that its name alone decides, so its content
 * has a short name: `id:k` is the first k pieces of file id. Each state a file was ever meant to be in (made, flushed, closed) is a
 * milestone. A writer that was cut off leaves anything between two milestones, which is told as the lower one: what was promised
 * is there, what was not may be.
 */
final class HdfsFiles {
    private static final int SMALL = 700;
    /** Three of them are more than a block. */
    private static final int LARGE = 24_000;
    /** Below it a content is its own name. */
    static final String PLAIN = "/usr/root/";

    private final Map<String, String> ids = new ConcurrentHashMap<>();
    private final Map<String, TreeSet<Integer>> milestones = new ConcurrentHashMap<>();
    private final Map<String, Integer> acknowledged = new ConcurrentHashMap<>();
    /** How many changes of a name were asked for and not answered. */
    private final Map<String, Integer> pending = new ConcurrentHashMap<>();

    /** Someone is about to make a file at this path, with no piece in it. */
    void made(String path, String id) {
        ids.put(path, id);
        milestone(id, 0);
    }

    /** The file of one path is about to be at another. */
    void renamed(String from, String to) {
        String id = ids.get(from);
        if (id != null) {
            ids.put(to, id);
        }
    }

    /** So many pieces are about to be promised. @return the name of that content */
    String milestone(String id, int pieces) {
        TreeSet<Integer> all = milestones.computeIfAbsent(id, x -> new TreeSet<>());
        synchronized (all) {
            all.add(pieces);
        }
        return id + ":" + pieces;
    }

    private static int size(String id) {
        return Math.floorMod(id.hashCode(), 4) == 0 ? LARGE : SMALL;
    }

    /** The n-th piece of a file, from 0. */
    static byte[] piece(String id, int n) {
        byte[] bytes = new byte[size(id)];
        byte[] head = (id + ":" + n + "\n").getBytes(StandardCharsets.UTF_8);
        System.arraycopy(head, 0, bytes, 0, head.length);
        long x = id.hashCode() * 31L + n * 0x9e3779b97f4a7c15L + 1;
        for (int i = head.length; i < bytes.length; i++) {
            x ^= x << 13;
            x ^= x >>> 7;
            x ^= x << 17;
            bytes[i] = (byte) x;
        }
        return bytes;
    }

    /** The writer of a content, by the name that {@link #milestone} gave it, was told that it is there: whoever opens the file from now on sees at least this much. */
    void acknowledged(String name) {
        int colon = name.lastIndexOf(':');
        acknowledged.merge(name.substring(0, colon), Integer.valueOf(name.substring(colon + 1)), Math::max);
    }

    /** Whether a content's name, as {@link #name} has it, is more than the file's writer was told of: each replica has its own share of that. */
    boolean isAhead(String path, String name) {
        String id = ids.get(path);
        if (path.startsWith(PLAIN) || id == null || !name.startsWith(id + ":")) {
            return false;
        }
        return Integer.parseInt(name.substring(id.length() + 1)) > acknowledged.getOrDefault(id, 0);
    }

    /** Someone is about to ask for a change of whether there is a file at this path. */
    void asked(String path) {
        pending.merge(path, 1, Integer::sum);
    }

    /** One of those was answered: it is done, and in the journal. */
    void answered(String path) {
        pending.merge(path, -1, Integer::sum);
    }

    /**
     * Whether a change is under way, or may still be: an active NameNode shows it before the journal has it, and its successor may never have heard of it.
     * What was not answered is so for good.
     */
    boolean isPending(String path) {
        return pending.getOrDefault(path, 0) > 0;
    }

    String id(String path) {
        return ids.get(path);
    }

    /** The name of what was read at a path; words that no operation has written where nobody meant the file to be so. */
    String name(String path, byte[] content) {
        if (path.startsWith(PLAIN)) {
            return new String(content, StandardCharsets.ISO_8859_1);
        }
        String id = ids.get(path);
        if (id == null) {
            return content.length + " bytes in a file nobody made";
        }
        int size = size(id);
        int whole = content.length / size;
        for (int n = 0; n * size < content.length; n++) {
            byte[] want = piece(id, n);
            int end = Math.min(content.length, (n + 1) * size);
            byte[] seen = Arrays.copyOfRange(content, n * size, end);
            if (!Arrays.equals(seen, Arrays.copyOf(want, seen.length))) {
                return "damaged in piece " + n + " of " + whole;
            }
        }
        TreeSet<Integer> all = milestones.get(id);
        synchronized (all) {
            boolean more = whole > all.last() || whole == all.last() && content.length > whole * size;
            return more ? content.length + " bytes, more than was written" : id + ":" + all.floor(whole);
        }
    }
}
