import java.io.IOException;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.ClusterMetrics;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.ipc.RpcClient;
import org.apache.hadoop.hbase.ipc.RpcClientFactory;
import org.apache.hadoop.hbase.security.User;
import org.apache.hadoop.hbase.shaded.protobuf.ProtobufUtil;
import org.apache.hadoop.hbase.shaded.protobuf.RequestConverter;
import org.apache.hadoop.hbase.shaded.protobuf.generated.MasterProtos.IsMasterRunningRequest;
import org.apache.hadoop.hbase.shaded.protobuf.generated.MasterProtos.MasterService;
import org.apache.hbase.thirdparty.com.google.protobuf.ServiceException;
import warren.workload.Node;

/**
 * Which masters take themselves for the active one. A connection asks the one that ZooKeeper names, and never meets another one that has not
 * noticed: so each is asked by itself. Its web port would say the same, but what it says of a master that has stopped may be old.
 */
final class HbaseMasters implements AutoCloseable {
    private static final int PORT = 16000;
    private static final int CALL_MS = 2000;
    private final RpcClient client;

    HbaseMasters(Configuration conf) {
        client = RpcClientFactory.createClient(conf, HConstants.CLUSTER_ID_DEFAULT);
    }

    /** Those that say so two times in a row, with their names: the first time may have been the last moment of its rule. */
    Map<Node, ServerName> active(List<Node> nodes) throws IOException {
        Map<Node, ServerName> twice = once(nodes);
        twice.entrySet().retainAll(once(nodes).entrySet());
        return twice;
    }

    private Map<Node, ServerName> once(List<Node> nodes) throws IOException {
        Map<Node, ServerName> active = new LinkedHashMap<>();
        for (Node node : nodes) {
            ServerName name = node.alive() ? named(node) : null;
            if (name != null) {
                active.put(node, name);
            }
        }
        return active;
    }

    /** @return what a master that is active, and has not stopped, calls itself; null when it is neither, or does not answer */
    private ServerName named(Node node) throws IOException {
        ServerName at = ServerName.valueOf(node.address, PORT, ServerName.NON_STARTCODE);
        MasterService.BlockingInterface master = MasterService.newBlockingStub(client.createBlockingRpcChannel(at, User.getCurrent(), CALL_MS));
        try {
            if (!master.isMasterRunning(null, IsMasterRunningRequest.getDefaultInstance()).getIsMasterRunning()) {
                return null;
            }
            return ProtobufUtil.toServerName(master.getClusterStatus(null,
                    RequestConverter.buildGetClusterStatusRequest(EnumSet.of(ClusterMetrics.Option.MASTER))).getClusterStatus().getMaster());
        } catch (ServiceException e) {
            return null;
        }
    }

    @Override
    public void close() {
        client.close();
    }
}
