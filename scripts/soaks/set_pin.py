"""set_pin.py MODULE PIN-FILE NEW-PIN-FILE: changes the user PIN of the first HSM token, as its owner would with the vendor's
tool. SoftHSM has no such tool. SOFTHSM2_CONF selects the HSM token. Sizes and order of the functions are those of PKCS#11 2.40's
header."""
import ctypes
import pathlib
import sys

INITIALIZE, SLOT_LIST, OPEN_SESSION, LOGIN, SET_PIN = 0, 4, 12, 18, 11
SERIAL_READ_WRITE, USER = 6, 1


def main(module, pin_file, new_file):
    pin, new = (pathlib.Path(path).read_bytes().strip() for path in (pin_file, new_file))
    library, functions = ctypes.CDLL(module), ctypes.POINTER(ctypes.c_void_p)()
    library.C_GetFunctionList(ctypes.byref(functions))

    def call(index, *arguments):
        # The function list begins with the version, which is padded to the size of a pointer.
        function = ctypes.CFUNCTYPE(ctypes.c_ulong, *[type(argument) for argument in arguments])(functions[index + 1])
        result = function(*arguments)
        if result != 0:
            sys.exit(f"set_pin.py: function {index} returned {result:#x}")
    number = ctypes.c_ulong
    call(INITIALIZE, ctypes.c_void_p(None))
    count, slots, session = number(16), (number * 16)(), number()
    call(SLOT_LIST, ctypes.c_ubyte(1), ctypes.cast(slots, ctypes.c_void_p), ctypes.cast(ctypes.byref(count), ctypes.c_void_p))
    call(OPEN_SESSION, number(slots[0]), number(SERIAL_READ_WRITE), ctypes.c_void_p(None), ctypes.c_void_p(None),
         ctypes.cast(ctypes.byref(session), ctypes.c_void_p))
    call(LOGIN, session, number(USER), ctypes.c_char_p(pin), number(len(pin)))
    call(SET_PIN, session, ctypes.c_char_p(pin), number(len(pin)), ctypes.c_char_p(new), number(len(new)))


if __name__ == "__main__":
    main(*sys.argv[1:])
