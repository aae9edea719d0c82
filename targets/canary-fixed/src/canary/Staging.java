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
    private final Map<Long, Stage> stages = new HashMap<>();

    Staging(File dir) {
        this.dir = dir;
        dir.mkdirs();
    }

    private File file(long request) {
        return new File(dir, Long.toHexString(request));
    }

    void open(long request, String owner, String text) throws IOException {
        stages.put(request, new Stage(owner));
        // A value sent again begins again.
        Files.deleteIfExists(file(request).toPath());
        add(request, text);
    }

    void more(long request, String text) throws IOException {
        if (stages.containsKey(request)) {
            add(request, text);
        }
    }

    /** @return the whole value, or null when its beginning is not here */
    String close(long request, String text) throws IOException {
        if (stages.remove(request) == null) {
            return null;
        }
        add(request, text);
        String value = new String(Files.readAllBytes(file(request).toPath()), StandardCharsets.UTF_8);
        Files.delete(file(request).toPath());
        return value;
    }

    private void add(long request, String text) throws IOException {
        try (FileOutputStream out = new FileOutputStream(file(request), true)) {
            out.write(text.getBytes(StandardCharsets.UTF_8));
        }
    }

    /** The link to {@code owner} is lost. */
    void keep(String owner) throws IOException {
        for (Map.Entry<Long, Stage> e : stages.entrySet()) {
            if (e.getValue().owner.equals(owner) && e.getValue().until == 0) {
                e.getValue().until = System.nanoTime() + 50L * Node.TICK * 1_000_000L;
                note(e.getKey(), owner);
            }
        }
    }

    private void note(long request, String owner) throws IOException {
        try (FileOutputStream out = new FileOutputStream(new File(dir, Long.toHexString(request) + ".kept"))) {
            out.write(owner.getBytes(StandardCharsets.UTF_8));
        }
    }

    void expire() throws IOException {
        for (Iterator<Map.Entry<Long, Stage>> i = stages.entrySet().iterator(); i.hasNext();) {
            Map.Entry<Long, Stage> e = i.next();
            if (e.getValue().until != 0 && System.nanoTime() - e.getValue().until >= 0) {
                i.remove();
                Files.deleteIfExists(file(e.getKey()).toPath());
                Files.deleteIfExists(new File(dir, Long.toHexString(e.getKey()) + ".kept").toPath());
            }
        }
    }

    /** A new reign knows nothing of what the last one was sent. */
    void clear() throws IOException {
        stages.clear();
        for (File file : dir.listFiles()) {
            Files.delete(file.toPath());
        }
    }
}
