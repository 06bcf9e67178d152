// How a bundled program asks for Node's own modules. An import statement reads every name that such a module has, and `node:http` has the
// web sockets among them and `node:crypto` the web's cryptography: both are loaded for it, four MiB that nobody asked for. Asked for as
// values they bring what is used. Pure.

const statement = /\bimport\s*([\w$*\s,]*?)(?:\{([^{}]*)\})?\s*from\s*(["'])(node:[\w/]+)\3;/g

/** The same program, in which these imports are values. They stand before everything else, as import statements do in a bundle. */
export function askForValues(program) {
  return program.replace(statement, (_all, whole, names, _quote, name) => {
    const value = `process.getBuiltinModule("${name}")`
    const one = whole
      .replace(/,\s*$/, '')
      .replace(/^\*\s*as\s+/, '')
      .trim()
    const parts = names === undefined ? [] : [`const{${names.replaceAll(/\s+as\s+/g, ':')}}=${value};`]
    return (one === '' ? [] : [`const ${one}=${value};`]).concat(parts).join('')
  })
}
