package warren.agent;

import java.lang.instrument.ClassFileTransformer;
import java.security.ProtectionDomain;
import warren.runtime.Conf;
import warren.runtime.Guard;
import warren.runtime.Link;

/** `dump` where the classes were instrumented offline: writes them as they are loaded and changes nothing. */
final class Dumper implements ClassFileTransformer {
    private final Conf conf;

    Dumper(Conf conf) {
        this.conf = conf;
    }

    @Override
    public byte[] transform(ClassLoader loader, String name, Class<?> redefined, ProtectionDomain domain, byte[] bytes) {
        if (loader != null && name != null && conf.included(name.replace('/', '.'))) {
            int ticket = Guard.enter();
            try {
                AppTransformer.dump(conf, name, bytes);
            } catch (Throwable t) {
                Link.warn("dump: " + name + ": " + t);
            } finally {
                if (ticket >= 0) {
                    Guard.exit(ticket);
                }
            }
        }
        return null;
    }
}
