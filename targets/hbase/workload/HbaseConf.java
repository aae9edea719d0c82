import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import warren.workload.Runner;

/** Configurations of clients: where ZooKeeper and the NameNode are, how long is waited. */
final class HbaseConf {
    static final int REGION_PORT = 16020;
    private final Map<String, String> addresses;

    /** @param addresses of the nodes, by name */
    HbaseConf(Map<String, String> addresses) {
        this.addresses = addresses;
    }

    private String address(String name) {
        String address = addresses.get(name);
        if (address == null) {
            throw new IllegalArgumentException("no node " + name);
        }
        return address;
    }

    /** @param adminMs how long one table operation may take */
    Configuration of(long adminMs) {
        Configuration conf = HBaseConfiguration.create();
        conf.set("fs.defaultFS", "hdfs://" + address("nn1") + ":8020");
        conf.set("hbase.rootdir", "hdfs://" + address("nn1") + ":8020/hbase");
        conf.set("hbase.zookeeper.quorum", address("zk1"));
        conf.setInt("hbase.zookeeper.property.clientPort", 2181);
        conf.setInt("zookeeper.session.timeout", (int) Runner.number("session_ms", 4000));
        // A call that is not answered is tried again while its operation lasts: an RPC of a second or two, an operation of a few.
        conf.setInt("hbase.rpc.timeout", 1500);
        conf.setInt("hbase.rpc.read.timeout", 1500);
        conf.setInt("hbase.rpc.write.timeout", 1500);
        conf.setInt("hbase.ipc.client.socket.timeout.connect", 1000);
        conf.setInt("hbase.client.operation.timeout", 3000);
        conf.setInt("hbase.client.scanner.timeout.period", 3000);
        conf.setInt("hbase.client.meta.operation.timeout", 3000);
        conf.setInt("hbase.client.meta.read.rpc.timeout", 1500);
        conf.setInt("hbase.client.retries.number", 6);
        conf.setInt("hbase.client.pause", 50);
        conf.setInt("hbase.client.pause.cqtbe", 50);
        conf.setLong("hbase.client.sync.wait.timeout.msec", adminMs);
        conf.setBoolean("hbase.client.log.scanner.activity", false);
        conf.setBoolean("hbase.netty.nativetransport", false);
        conf.setInt("hbase.hconnection.threads.max", 8);
        conf.setInt("hbase.client.meta.lookup.threads", 2);
        conf.set("hadoop.user.group.static.mapping.overrides", "root=root;");
        conf.setInt("ipc.client.connect.max.retries", 2);
        conf.setInt("ipc.client.connect.timeout", 1000);
        conf.setInt("ipc.client.rpc-timeout.ms", 3000);
        conf.setInt("dfs.client.socket-timeout", 3000);
        conf.setBoolean("dfs.client.use.datanode.hostname", true);
        conf.setBoolean("dfs.client.read.shortcircuit", false);
        return conf;
    }

    /** The same, but a call is made again until a next master answers, or the steps are given up. */
    Configuration lasting(long adminMs) {
        Configuration conf = of(adminMs);
        conf.setInt("hbase.client.operation.timeout", (int) Runner.number("steps_ms", 25_000));
        conf.setInt("hbase.client.retries.number", 50);
        return conf;
    }

    /** The same, but each call and each operation on rows may take so long. */
    Configuration patient(long adminMs, int callMs) {
        Configuration conf = of(adminMs);
        for (String key : new String[] {"hbase.rpc.timeout", "hbase.rpc.read.timeout", "hbase.client.operation.timeout",
            "hbase.client.scanner.timeout.period"}) {
            conf.setInt(key, callMs);
        }
        return conf;
    }
}
