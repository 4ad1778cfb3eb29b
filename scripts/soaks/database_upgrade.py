"""Runs the article's commands for an upgrade of PostgreSQL to a new major version. scripts/test-database-upgrade calls it."""
import restores
import service

OLD, NEW = "15", "17"


def block(name):
    return restores.block(name, "test-database-upgrade")


class Server(restores.Server):
    """A cluster of the old version, and an empty cluster of the new version, as its package makes it."""

    def __init__(self):
        super().__init__(OLD)
        self.type(f"pg_createcluster {NEW} main")

    def identity(self):
        return self.sql("SELECT system_identifier FROM pg_control_system()")

    def compared(self):
        """Returns the identifier of the server on which the daemons last compared their records."""
        return self.sql("SELECT system_identifier FROM paytokend.ledger_state", "paytokend")

    def change(self, before, after):
        """Stops one version and starts the other at the daemons' address. Each version's cluster has its own data."""
        self.type(f"""systemctl stop postgresql@{before}-main
            sed -i 's/^port = .*/port = 5433/' /etc/postgresql/{before}/main/postgresql.conf
            sed -i 's/^port = .*/port = 5432/' /etc/postgresql/{after}/main/postgresql.conf
            systemctl start postgresql@{after}-main""")
        self.version = after


def main():
    service.run("token-forge", "merchant", "authority", "--merchant-identifier", "merchant.com.example.restore",
                "--type", "ec", "--name", "merchant")
    server = Server()
    server.do("archive-log.sh")
    hosts = [restores.Host(f"backend-{number}", server.settings(f"backend-{number}")) for number in (1, 2)]
    for host in hosts:
        server.admit(host)
    server.make_ledger(hosts[0])
    for host in hosts:
        host.set_up()
    shop = restores.Shop(hosts)
    kept = shop.release(10)
    server.do("back-up-cluster.sh")
    before = server.identity()
    restores.require(server.compared() == before, "the ledger should know its server", server.compared(), before)
    restores.done(f"{len(kept)} payments released on PostgreSQL {OLD}")

    # The article stops all daemons, but this run leaves the second one running.
    hosts[0].type(block("stop-daemon.sh"))
    server.type(block("upgrade-postgresql.sh"))
    server.version = NEW
    after = server.identity()
    restores.require(after != before, "pg_upgrade should have changed the system identifier", after)
    restores.require(server.sql("SHOW server_version").startswith(NEW + "."), "another version serves", server.sql("SHOW server_version"))
    restores.require(server.sql("SHOW archive_mode") == "on", "the new cluster should archive its log")
    hosts[0].type(block("start-daemon.sh"))
    kept += shop.release()
    shop.is_kept(kept)
    restores.require(server.findings() == 0, "an upgrade should need no acceptance")
    restores.require(server.compared() == after, "the daemons should have compared on the new server", server.compared(), after)
    shop.verify()
    restores.done(f"upgraded to PostgreSQL {NEW}, another system identifier: {len(kept)} known, none released again, nothing to accept")

    server.type(block("back-up-upgraded.sh"))
    later = shop.release()
    # The old cluster is started while both daemons run, as an administrator could do by mistake.
    server.change(NEW, OLD)
    service.wait("both findings", lambda: server.findings() == 2)
    shop.is_held(*kept[:1], *later[:1])
    restores.done("the old cluster in its place: both daemons find it older, and release nothing")

    # A daemon that has written records on the old cluster finds that the new one lacks them.
    server.change(OLD, NEW)
    for host in hosts:
        host.type(restores.block("await-restore.sh"))
    service.wait("a finding", lambda: server.findings() > 0)
    for host in hosts:
        host.waits_for_acceptance()
    shop.is_held(*kept[:1], *later[:1])
    hosts[0].type(restores.block("accept-cluster.sh"))
    shop.accepted()
    for host in hosts:
        host.type(restores.block("await-no-more.sh"))
    kept += later + shop.release()
    shop.is_kept(kept)
    shop.verify()
    restores.done(f"the new cluster back and accepted: {len(kept)} known, none released again, records intact")


if __name__ == "__main__":
    with service.cleaning("test-database-upgrade"):
        main()
