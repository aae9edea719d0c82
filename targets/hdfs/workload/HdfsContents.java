import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import warren.workload.Node;

/**
 * What the files of a namespace hold, as each NameNode tells where it is. What cannot be read is tried again until one patience for them
 * all is over: a DataNode's report may still be to come, and a lost file must not take the others' time.
 */
final class HdfsContents {
    private static final long PATIENCE_NS = 12_000_000_000L;
    private static final long POLL_MS = 100;

    private final Map<Node, DistributedFileSystem> systems;
    private final Map<Node, HdfsTree> trees;
    private final Map<Node, Map<String, byte[]>> contents = new LinkedHashMap<>();
    private final Map<Node, Map<String, IOException>> failed = new LinkedHashMap<>();

    HdfsContents(Map<Node, DistributedFileSystem> systems, Map<Node, HdfsTree> trees) {
        this.systems = systems;
        this.trees = trees;
        for (Node node : trees.keySet()) {
            contents.put(node, new TreeMap<>());
        }
    }

    /** Reads all of it, or as much as can be had. */
    void read() throws InterruptedException {
        long limit = System.nanoTime() + PATIENCE_NS;
        while (!pass(limit) && System.nanoTime() - limit < 0) {
            Thread.sleep(POLL_MS);
        }
    }

    private boolean pass(long limit) {
        boolean whole = true;
        for (Node node : trees.keySet()) {
            again(node, limit);
            whole &= failed(node).isEmpty();
        }
        return whole;
    }

    /** Tries once what was not read yet through this NameNode; after the limit, until one more fails. */
    void again(Node node, long limit) {
        Map<String, IOException> why = new TreeMap<>();
        failed.put(node, why);
        Map<String, byte[]> mine = contents.get(node);
        for (Map.Entry<String, HdfsTree.Entry> e : trees.get(node).entries.entrySet()) {
            if (e.getValue().folder || mine.containsKey(e.getKey())) {
                continue;
            }
            if (!why.isEmpty() && System.nanoTime() - limit >= 0) {
                return;
            }
            try {
                mine.put(e.getKey(), HdfsSession.read(systems.get(node), e.getKey()));
            } catch (IOException failure) {
                why.put(e.getKey(), failure);
            }
        }
    }

    /** What could not be read when it was tried last, and why. Empty = all was read. */
    Map<String, IOException> failed(Node node) {
        return failed.get(node);
    }

    Map<String, byte[]> of(Node node) {
        return contents.get(node);
    }
}
