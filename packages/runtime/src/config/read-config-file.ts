// Reads configuration files, TOML or YAML by extension, and secret files. Parser messages can quote a line with a secret, so only
// location and first sentence are passed on.
import { hash } from 'node:crypto'
import { open } from 'node:fs/promises'
import { extname } from 'node:path'
import { parse as parseToml, TomlError } from 'smol-toml'
import { parseDocument } from 'yaml'

export type FileRead<T> = { ok: true; value: T } | { ok: false; problem: string }
/** Called for every file that is read, with a fingerprint of its content. */
export type OnRead = (path: string, print: string) => void

const configBytesMax = 1024 * 1024
const secretBytesMax = 64 * 1024

export async function readConfigFile(path: string, onRead?: OnRead): Promise<FileRead<unknown>> {
  const parse = selectParser(path)
  if (!parse) return { ok: false, problem: `has the extension "${extname(path)}": name it .toml, .yaml, .yml or .json` }
  const text = await readText(path, configBytesMax, onRead)
  return text.ok ? parse(text.value) : text
}

/** The content without the white space around it. */
export async function readSecretFile(path: string, onRead?: OnRead): Promise<FileRead<string>> {
  const text = await readText(path, secretBytesMax, onRead)
  if (!text.ok) return text
  return text.value.trim() === '' ? { ok: false, problem: 'is empty' } : { ok: true, value: text.value.trim() }
}

/** The fingerprint that `onRead` would receive now. */
export async function readFingerprint(path: string): Promise<string> {
  let print = ''
  await readText(path, configBytesMax, (_, found) => (print = found))
  return print
}

type Parse = (text: string) => FileRead<unknown>

function selectParser(path: string): Parse | null {
  const extension = extname(path).toLowerCase()
  if (extension === '.toml') return parseTomlText
  return ['.yaml', '.yml', '.json'].includes(extension) ? parseYamlText : null
}

function parseTomlText(text: string): FileRead<unknown> {
  try {
    return { ok: true, value: parseToml(text) }
  } catch (error) {
    const place = error instanceof TomlError ? ` in line ${error.line}, column ${error.column}` : ''
    return { ok: false, problem: `is not valid TOML${place}` }
  }
}

function parseYamlText(text: string): FileRead<unknown> {
  const document = parseDocument(text, { prettyErrors: false, uniqueKeys: true, schema: 'core' })
  const error = document.errors[0]
  if (error) return { ok: false, problem: `is not valid YAML in line ${lineNumberAt(text, error.pos[0])} (${error.code})` }
  try {
    return { ok: true, value: (document.toJS({ maxAliasCount: 100 }) as unknown) ?? {} }
  } catch {
    return { ok: false, problem: 'is not usable YAML: an alias is unknown or used more than 100 times' }
  }
}

function lineNumberAt(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length
}

/** Nearly every file fits; allocating the maximum size for each read would waste memory. */
const smallFileBytes = 4 * 1024

async function readText(path: string, bytesMax: number, onRead?: OnRead): Promise<FileRead<string>> {
  try {
    await using file = await open(path, 'r')
    const usual = await file.read(Buffer.allocUnsafe(smallFileBytes), 0, smallFileBytes, 0)
    const { bytesRead, buffer } = usual.bytesRead < smallFileBytes ? usual : await file.read(Buffer.alloc(bytesMax + 1), 0, bytesMax + 1, 0)
    onRead?.(path, hash('sha256', buffer.subarray(0, bytesRead)))
    if (bytesRead > bytesMax) return { ok: false, problem: `is larger than ${bytesMax} bytes` }
    return { ok: true, value: buffer.toString('utf8', 0, bytesRead) }
  } catch (error) {
    return {
      ok: false,
      problem: `cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown error'}): check the path and its permissions`,
    }
  }
}
