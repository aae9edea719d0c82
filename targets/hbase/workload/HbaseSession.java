import java.io.IOException;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.conf.Configuration;
import warren.workload.Client;
import warren.workload.LibrarySession;

/** One client of the cluster: a connection of its own, with nothing known yet of where regions are. Its calls end by {@link HbaseConf}. */
final class HbaseSession extends LibrarySession {
    final Connection connection;

    HbaseSession(Configuration conf, String client) throws IOException {
        super(client);
        connection = ConnectionFactory.createConnection(conf);
    }

    static HbaseSession of(Client client) {
        return (HbaseSession) client.session();
    }

    /** What one operation does with an administrator's handle. */
    interface Administered<T> {
        T run(Admin admin) throws Exception;
    }

    <T> T admin(Administered<T> body) throws Exception {
        return call(() -> {
            try (Admin admin = connection.getAdmin()) {
                return body.run(admin);
            }
        });
    }

    @Override
    protected void end() throws IOException {
        connection.close();
    }

    @Override
    protected void letGo() throws IOException {
        connection.close();
    }
}
