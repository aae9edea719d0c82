package canary;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;

/**
 * Values that followers send in parts, collected in one file each until the last part is there. When the follower's link is
 * lost in between, what has come is kept for a while: the follower sends it again when it is back. Guarded by the node's lock.
 */
final class Staging {
    private static final class Stage {
        final String owner;
        /** 0 while its link is up, else when it is thrown away. */
        long until;

        Stage(String owner) {
            this.owner = owner;
        }
    }

    private final File dir;
    private final Store store;
    private final Map<Long, Stage> stages = new HashMap<>();

    Staging(File dir, Store store) {
        this.dir = dir;
        this.store = store;
    }

    private static String name(long request) {
        return "part-" + Long.toHexString(request);
    }

    private File file(long request) {
        return new File(dir, name(request));
    }

    void open(long request, String owner) throws IOException {
        stages.put(request, new Stage(owner));
        // A value sent again begins again.
        Files.deleteIfExists(file(request).toPath());
    }

    /** Adds a part; one whose beginning is not here is ignored. */
    void add(long request, String text) throws IOException {
        if (!stages.containsKey(request)) {
            return;
        }
        try (FileOutputStream out = new FileOutputStream(file(request), true)) {
            out.write(text.getBytes(StandardCharsets.UTF_8));
        }
    }

    /** @return the whole value, or null when its beginning is not here */
    String take(long request) throws IOException {
        if (stages.remove(request) == null) {
            return null;
        }
        String value = new String(Files.readAllBytes(file(request).toPath()), StandardCharsets.UTF_8);
        Files.delete(file(request).toPath());
        store.unmark(name(request) + "-kept");
        return value;
    }

    /** The link to {@code owner} is lost. */
    void keep(String owner) {
        for (Map.Entry<Long, Stage> e : stages.entrySet()) {
            if (e.getValue().owner.equals(owner) && e.getValue().until == 0) {
                e.getValue().until = System.nanoTime() + 60L * Node.TICK * 1_000_000L;
            }
        }
    }

    /** Called every tick. */
    void expire() throws IOException {
        for (Iterator<Map.Entry<Long, Stage>> i = stages.entrySet().iterator(); i.hasNext();) {
            Map.Entry<Long, Stage> e = i.next();
            if (e.getValue().until == 0) {
                continue;
            }
            long left = e.getValue().until - System.nanoTime();
            if (left > 0) {
                note(e.getKey(), e.getValue().owner, left);
            } else {
                i.remove();
                Files.deleteIfExists(file(e.getKey()).toPath());
                store.unmark(name(e.getKey()) + "-kept");
            }
        }
    }

    /** Whoever looks after the node sees what is kept, for whom and how long. */
    private void note(long request, String owner, long leftNs) throws IOException {
        store.mark(name(request) + "-kept", owner + " " + leftNs / 1_000_000L);
    }

    /** A new reign knows nothing of what the last one was sent. */
    void clear() throws IOException {
        stages.clear();
        for (File file : dir.listFiles((d, name) -> name.startsWith("part-"))) {
            Files.delete(file.toPath());
        }
    }
}
