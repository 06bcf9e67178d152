// Finds the line of a key in a configuration file, so that a problem can name it. Only for messages: files are read by their parsers.
import { isMap, isScalar, LineCounter, parseDocument } from 'yaml'
import { canonical } from './settings.ts'

/** The line of `path` (`server.port`), or of the nearest section around it; null if the file has neither. */
export function findKeyLine(file: string, text: string, path: string): number | null {
  const lines = file.endsWith('.toml') ? listTomlKeys(text) : listYamlKeys(text)
  for (let keys = path.split('.'); keys.length > 0; keys = keys.slice(0, -1)) {
    const line = lines.get(canonical(keys.join('.')))
    if (line !== undefined) return line
  }
  return null
}

/** Headers and simple assignments; what else TOML allows has the line of its section. */
function listTomlKeys(text: string): Map<string, number> {
  const lines = new Map<string, number>()
  let section = ''
  for (const [index, line] of text.split('\n').entries()) {
    const header = /^\s*\[\[?\s*([\w.\-" ]+?)\s*\]/.exec(line)?.[1]
    const key = /^\s*([\w.\-" ]+?)\s*=/.exec(line)?.[1]
    if (header !== undefined) section = header
    const path = header ?? (key === undefined ? undefined : [section, key].filter((part) => part !== '').join('.'))
    if (path !== undefined && !lines.has(canonical(path.replaceAll(/["\s]/g, ''))))
      lines.set(canonical(path.replaceAll(/["\s]/g, '')), index + 1)
  }
  return lines
}

function listYamlKeys(text: string): Map<string, number> {
  const counter = new LineCounter()
  const document = parseDocument(text, { lineCounter: counter, schema: 'core', uniqueKeys: false })
  const lines = new Map<string, number>()
  const collect = (node: unknown, outer: readonly string[]): void => {
    if (!isMap(node)) return
    for (const { key, value } of node.items) {
      if (!isScalar(key)) continue
      const path = [...outer, String(key.value)]
      lines.set(canonical(path.join('.')), counter.linePos(key.range?.[0] ?? 0).line)
      collect(value, path)
    }
  }
  collect(document.contents, [])
  return lines
}
