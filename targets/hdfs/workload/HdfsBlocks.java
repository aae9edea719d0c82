import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.hdfs.DFSUtilClient;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.client.BlockReportOptions;
import org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.DatanodeReportType;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.ipc.RPC;
import warren.workload.Node;
import warren.workload.Observations;

/**
 * Whether each block is there, as the active NameNode counts. Called by {@link HdfsObserver}, once or twice a round; tells once. A block
 * with a bad replica beside good ones is no failure: with as many DataNodes as replicas there may be no place for another copy before the
 * bad one's DataNode reports in full, which is every six hours.
 */
final class HdfsBlocks {
    /** Missing blocks may be mended by copies and by reports that are under way. */
    private static final long MENDED_NS = 15_000_000_000L;
    /** Of full reports that were asked for. */
    private static final long REPORTED_NS = 6_000_000_000L;
    private static final long POLL_NS = 50_000_000L;
    private static final int CALL_MS = 3000;

    private final Observations out;
    private final HdfsDisks disks;
    private boolean told;

    HdfsBlocks(Observations out, HdfsDisks disks) {
        this.out = out;
        this.disks = disks;
    }

    /**
     * What is missing after a while, and still when each DataNode has said anew what it has, is lost if it is on no disk either, or all its
     * replicas count as bad though all DataNodes were asked. What only a report brings back, or what lies on a disk and is not told of, was there all the time.
     */
    void judge(Node active, DistributedFileSystem fs) throws Exception {
        if (told || noneMissing(fs, MENDED_NS)) {
            return;
        }
        String counts = fs.getMissingBlocksCount() + " missing, " + fs.getCorruptBlocksCount() + " with a bad replica";
        String silent = askForReports(fs);
        counts += silent;
        if (noneMissing(fs, REPORTED_NS)) {
            out.refused(active, "no missing block before its DataNode reports in full", counts + ", until all DataNodes were asked for full reports");
        } else {
            List<LocatedBlock> missing = missing(fs);
            String lost = disks.lost(missing);
            if (lost != null) {
                out.mismatch(active, "blocks are missing", counts + ", " + lost + " on no disk");
            } else if (silent.isEmpty() && missing.stream().anyMatch(LocatedBlock::isCorrupt)) {
                out.mismatch(active, "blocks are missing", counts + ", the replicas that there are count as bad");
            } else {
                out.refused(active, "no missing block that lies on a disk", counts);
            }
        }
        told = true;
    }

    /** The blocks of the files that have a missing one, as the NameNode lists them (the first hundred). */
    private static List<LocatedBlock> missing(DistributedFileSystem fs) throws IOException {
        List<LocatedBlock> blocks = new ArrayList<>();
        RemoteIterator<Path> files = fs.listCorruptFileBlocks(new Path("/"));
        while (files.hasNext()) {
            String path = files.next().toUri().getPath();
            blocks.addAll(fs.getClient().getLocatedBlocks(path, 0, Long.MAX_VALUE).getLocatedBlocks());
        }
        return blocks;
    }

    private static boolean noneMissing(DistributedFileSystem fs, long patience) throws IOException {
        long limit = System.nanoTime() + patience;
        while (fs.getMissingBlocksCount() > 0) {
            if (System.nanoTime() - limit >= 0) {
                return false;
            }
            LockSupport.parkNanos(POLL_NS);
        }
        return true;
    }

    /** As `dfsadmin -triggerBlockReport` does. @return what is to be known of those that could not be asked, which may have what is missing */
    private static String askForReports(DistributedFileSystem fs) throws IOException {
        StringBuilder silent = new StringBuilder();
        for (DatanodeInfo node : fs.getDataNodeStats(DatanodeReportType.LIVE)) {
            ClientDatanodeProtocol datanode = null;
            try {
                datanode = DFSUtilClient.createClientDatanodeProtocolProxy(node, fs.getConf(), CALL_MS, false);
                datanode.triggerBlockReport(new BlockReportOptions.Factory().setIncremental(false).build());
            } catch (IOException e) {
                silent.append(", ").append(node.getXferAddr()).append(" could not be asked for a report: ").append(e);
            } finally {
                if (datanode != null) {
                    RPC.stopProxy(datanode);
                }
            }
        }
        return silent.toString();
    }
}
