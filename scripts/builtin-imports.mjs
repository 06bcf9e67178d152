// Rewrites imports of Node's modules in a bundle. An import statement loads every name of the module, including web sockets of
// `node:http` and Web Crypto of `node:crypto`, which takes four MiB. Property access loads only the used names. Pure.

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
