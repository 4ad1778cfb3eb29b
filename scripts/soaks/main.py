"""Runs one soak: the module whose name is the first argument, with the options that follow."""
import argparse
import importlib
import sys

import service


def main():
    name = sys.argv.pop(1)
    soak = importlib.import_module(name.replace("-", "_"))
    parser = argparse.ArgumentParser(prog=f"scripts/soak {name}", description=soak.__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    service.add_options(parser)
    with service.cleaning():
        sys.exit(service.verdict(soak.main(parser)))


main()
