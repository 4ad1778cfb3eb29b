"""Sends payments to an installed daemon while its package is replaced. scripts/test-install calls it. It runs as root in the
booted system, in a directory that ACCOUNT can read and that contains `authority`. The callers run as ACCOUNT, which must be in
the groups paytokend-socket and payments.

Standard input has the line `begin` before a replacement, and `end LABEL` when the package is installed. Each is answered with the
line `done`, the second one once payments are released again and the load is quiet. At the end of the input, the program finishes
the payments under way, and compares the answers with the ledger and its record. Exit status: 0, or 1 if a payment was refused,
lost, wrong or released twice.
"""
import argparse
import os
import pwd
import sys
import time

import callers
import proof
import restarts
import service


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("account", metavar="ACCOUNT")
    parser.add_argument("--certificate", default="authority/shop.pem", help="of the merchant who is paid")
    parser.add_argument("--socket", default="/run/paytokend/paytokend.sock")
    parser.add_argument("--ledger", default="/var/lib/paytokend/ledger.sqlite")
    parser.add_argument("--rate", type=float, default=20, help="payments a second")
    parser.add_argument("--quiet", type=float, default=3, help="seconds without a replacement before and after each")
    options = parser.parse_args()
    account = pwd.getpwnam(options.account)
    # The socket's group decides which accounts can connect, and the daemon identifies the account by the kernel. So the callers
    # really run as this account.
    os.initgroups(account.pw_name, account.pw_gid)
    os.setegid(account.pw_gid)
    os.seteuid(account.pw_uid)
    with service.cleaning("installed"):
        load = callers.Callers({"host": options.socket}, options.rate, 32, options.certificate)
        seen = restarts.Restarts(load, options.quiet, heads=("installed", "serves"))
        load.start()
        load.steady(options.quiet)
        struck = None
        for line in map(str.strip, sys.stdin):
            if line == "begin":
                struck = time.monotonic()
            else:
                seen.note(line.removeprefix("end "), ["host"], struck, time.monotonic())
            print("done", flush=True)
        load.wait_for_releases(["host"], time.monotonic())
        load.finish()
        os.seteuid(0)
        return service.verdict(seen.finish(proof.LedgerFile(options.ledger)))


if __name__ == "__main__":
    sys.exit(main())
