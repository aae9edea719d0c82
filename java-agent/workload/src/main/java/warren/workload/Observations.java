package warren.workload;

import java.io.IOException;

/** observations.jsonl: what can be seen of the system (docs/formats.md section 7). Drivers write the target's part. */
public final class Observations {
    private final Lines lines;
    private volatile boolean durable;

    Observations(String path) throws IOException {
        lines = new Lines(path);
    }

    void durable(boolean yes) {
        durable = yes;
    }

    private Object mark() {
        return durable ? Boolean.TRUE : null;
    }

    void serve(String phase, String node, boolean ok, long ms, String error) {
        lines.write("obs", "serve", "phase", phase, "node", node, "ok", ok, "ms", ms, "error", error);
    }

    void progress(String phase, String client, boolean ok, long ms, String error) {
        lines.write("obs", "progress", "phase", phase, "client", client, "ok", ok, "ms", ms, "error", error);
    }

    void round(String name, boolean complete) {
        lines.write("obs", "round", "name", name, "complete", complete, "durable", mark());
    }

    /** Content of one key on one node while the node was at {@code version}; value null = the key is there without content. */
    public void replica(Node node, String version, String key, String value, String keyVersion) {
        lines.write("obs", "replica", "node", node.name, "version", version, "key", key, "value",
                value == null ? Lines.NULL : value, "key_version", keyVersion, "durable", mark());
    }

    public void digest(Node node, String version, String hash) {
        lines.write("obs", "digest", "node", node.name, "version", version, "hash", hash, "durable", mark());
    }

    public void leader(Node node, String epoch) {
        lines.write("obs", "leader", "node", node.name, "epoch", epoch, "durable", mark());
    }

    public void epoch(Node node, String name, long value) {
        lines.write("obs", "epoch", "node", node.name, "name", name, "value", value, "t_ns", System.nanoTime());
    }

    public void leftover(String kind, String key, String owner) {
        lines.write("obs", "leftover", "kind", kind, "key", key, "owner", owner);
    }

    public void mismatch(Node node, String what, String detail) {
        lines.write("obs", "mismatch", "node", node.name, "what", what, "detail", detail);
    }

    /** What an administrator may ask of a healthy system, and it did not do in its time. */
    public void refused(Node node, String what, String why) {
        lines.write("obs", "refused", "node", node.name, "what", what, "why", why, "durable", mark());
    }

    /** What is no failure, and a reader of the run is to know: a warning of its record. {@code what: particulars}: of each {@code what} a campaign says the first. */
    public void note(String text) {
        lines.write("obs", "note", "text", text);
    }

    /** @param what one of replicas, digests, leader, leftovers, serve, progress, durability */
    public void incomplete(String what, String why) {
        lines.write("obs", "incomplete", "what", what, "why", why);
    }
}
