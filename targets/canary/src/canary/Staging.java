package canary;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Collection;
import java.util.Collections;
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
        final StringBuilder text = new StringBuilder();
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

    static String name(long request) {
        return "part-" + Long.toHexString(request);
    }

    private File file(long request) {
        return new File(dir, name(request));
    }

    void open(long request, String owner) {
        stages.put(request, new Stage(owner));
    }

    /** Adds a part; one whose beginning is not here is ignored. */
    void add(long request, String text) throws IOException {
        Stage stage = stages.get(request);
        if (stage == null) {
            return;
        }
        stage.text.append(text);
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
        forget(request);
        return value;
    }

    private void forget(long request) throws IOException {
        Files.deleteIfExists(file(request).toPath());
        Aside.delete(dir, name(request));
        store.unmark(name(request) + "-kept");
        store.unmark(name(request) + "-index");
    }

    /** The link to {@code owner} is lost: what has come is set aside, here and at those who are left. */
    void keep(String owner, Collection<Peer> left) throws IOException {
        for (Map.Entry<Long, Stage> e : stages.entrySet()) {
            if (e.getValue().owner.equals(owner) && e.getValue().until == 0) {
                e.getValue().until = System.nanoTime() + 60L * Node.TICK * 1_000_000L;
                int items = new Aside(dir, name(e.getKey()), e.getKey(), e.getValue().text.toString(), left).keep();
                index(e.getKey(), items);
            }
        }
    }

    private void index(long request, int items) throws IOException {
        store.mark(name(request) + "-index", Integer.toString(items));
    }

    /** The follower's side: the way to the leader is lost with this value under way. */
    void keepUnsent(long request, String value) throws IOException {
        new Aside(dir, "unsent-" + Long.toHexString(request), request, value, Collections.emptyList()).keep();
    }

    void dropUnsent() throws IOException {
        for (File file : dir.listFiles((d, name) -> name.startsWith("unsent-"))) {
            Files.delete(file.toPath());
        }
    }

    /** What the leader has of a value whose sender it lost; it is shown to whoever looks after this node. */
    void spare(long request, long number, String item) throws IOException {
        try (FileOutputStream out = new FileOutputStream(new File(dir, "spare-" + Long.toHexString(request)), number > 0)) {
            out.write(item.getBytes(StandardCharsets.UTF_8));
        }
    }

    void dropSpares() throws IOException {
        for (File file : dir.listFiles((d, name) -> name.startsWith("spare-"))) {
            Files.delete(file.toPath());
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
                forget(e.getKey());
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
        dropSpares();
        dropUnsent();
        for (File file : dir.listFiles((d, name) -> name.startsWith("part-"))) {
            Files.delete(file.toPath());
        }
    }
}
