import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider;
import org.apache.hadoop.hdfs.server.namenode.ha.HAProxyFactory;
import org.apache.hadoop.net.StandardSocketFactory;
import warren.workload.Runner;

/** Configurations of clients: which NameNode they ask first, how long they wait. */
final class HdfsConf {
    static final int RPC = 8020;
    /** Port of the failover controller of NameNode i, less i. */
    private static final int CONTROLLERS = 8101;
    private static final String BIND = "warren.client.address";
    private static final String COUNTED_AS = "warren.client.number";
    private static final Map<String, AtomicLong> FAILOVERS = new ConcurrentHashMap<>();

    private final Map<String, String> namenodes;
    private final AtomicLong made = new AtomicLong();

    /** @param namenodes address by name */
    HdfsConf(Map<String, String> namenodes) {
        this.namenodes = namenodes;
    }

    /** A client that asks this NameNode first and then the others. */
    Configuration of(String first, String address) {
        Configuration conf = new Configuration();
        StringBuilder order = new StringBuilder(first);
        for (Map.Entry<String, String> node : namenodes.entrySet()) {
            conf.set("dfs.namenode.rpc-address.ns." + node.getKey(), node.getValue() + ":" + RPC);
            // As in hdfs-site.xml.in: nn1's controller listens at 8102, nn2's at 8103.
            int index = Integer.parseInt(node.getKey().substring(2));
            conf.setInt("dfs.ha.zkfc.port.ns." + node.getKey(), CONTROLLERS + index);
            if (!node.getKey().equals(first)) {
                order.append(',').append(node.getKey());
            }
        }
        conf.set("fs.defaultFS", "hdfs://ns");
        conf.set("dfs.nameservices", "ns");
        conf.set("dfs.ha.namenodes.ns", order.toString());
        conf.setBoolean("dfs.ha.automatic-failover.enabled", true);
        conf.set("dfs.client.failover.proxy.provider.ns", Counting.class.getName());
        conf.set(COUNTED_AS, Long.toString(made.incrementAndGet()));
        conf.setInt("dfs.client.failover.sleep.base.millis", 50);
        conf.setInt("dfs.client.failover.sleep.max.millis", 500);
        conf.setInt("dfs.client.failover.max.attempts", 10);
        conf.setInt("ipc.client.connect.max.retries", 0);
        conf.setInt("ipc.client.connect.max.retries.on.timeouts", 0);
        conf.setInt("ipc.client.connect.timeout", 1000);
        conf.setInt("ipc.client.rpc-timeout.ms", 3000);
        conf.setInt("dfs.client.socket-timeout", 3000);
        conf.setInt("dfs.client.datanode-restart.timeout", 2);
        conf.setInt("dfs.client.block.write.locateFollowingBlock.initial.delay.ms", 20);
        conf.setBoolean("dfs.client.block.write.replace-datanode-on-failure.best-effort", true);
        conf.setBoolean("dfs.client.use.datanode.hostname", true);
        conf.setBoolean("dfs.client.read.shortcircuit", false);
        conf.setLong("dfs.blocksize", Runner.number("block_bytes", 65536));
        conf.setInt("dfs.replication", 3);
        conf.setInt("io.file.buffer.size", 4096);
        conf.set("hadoop.user.group.static.mapping.overrides", "root=root;");
        if (address != null) {
            conf.set(BIND, address);
            conf.setClass("hadoop.rpc.socket.factory.class.default", Bound.class, javax.net.SocketFactory.class);
        }
        return conf;
    }

    static DistributedFileSystem open(Configuration conf, String uri) throws IOException {
        return (DistributedFileSystem) FileSystem.newInstance(URI.create(uri), conf);
    }

    /** How often clients with this configuration have turned to another NameNode. */
    static AtomicLong failovers(Configuration conf) {
        return FAILOVERS.computeIfAbsent(conf.get(COUNTED_AS), key -> new AtomicLong());
    }

    /** Counts when its client turns to another NameNode. */
    public static final class Counting<T> extends ConfiguredFailoverProxyProvider<T> {
        private final AtomicLong count;

        public Counting(Configuration conf, URI uri, Class<T> face, HAProxyFactory<T> factory) {
            super(conf, uri, face, factory);
            count = failovers(conf);
        }

        @Override
        public void performFailover(T current) {
            count.incrementAndGet();
            super.performFailover(current);
        }
    }

    /** Sockets bound to the client's own address, so that a cut can tell clients apart. */
    public static final class Bound extends StandardSocketFactory implements org.apache.hadoop.conf.Configurable {
        private Configuration conf;

        @Override
        public Socket createSocket() throws IOException {
            Socket socket = super.createSocket();
            socket.bind(new InetSocketAddress(InetAddress.getByName(conf.get(BIND)), 0));
            return socket;
        }

        @Override
        public void setConf(Configuration set) {
            conf = set;
        }

        @Override
        public Configuration getConf() {
            return conf;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Bound && ((Bound) other).conf.get(BIND).equals(conf.get(BIND));
        }

        @Override
        public int hashCode() {
            return conf.get(BIND).hashCode();
        }
    }
}
