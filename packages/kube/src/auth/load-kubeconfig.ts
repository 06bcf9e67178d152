// Loads a kubeconfig file as kubectl does: contexts, inline and file data, certificate, token, token file, exec plugin. Unsupported options are
// refused by name, so that none is ignored silently.
import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { delimiter, dirname, isAbsolute, join } from 'node:path'
import { parse } from 'yaml'
import { fieldsAt, isFields, rowsAt, textAt } from '../client/fields.ts'
import type { Fields } from '../client/object.ts'
import type { KubeConfig } from './kube-config.ts'
import { BadKubeconfig } from './kube-config.ts'
import { FILE_KEYS, parseContext } from './kubeconfig-context.ts'

export interface KubeconfigOptions {
  path?: string | undefined
  context?: string | undefined
  env: Readonly<Record<string, string | undefined>>
}

/** Reads `path`, else the files of KUBECONFIG, else ~/.kube/config. If several files define a name, the first wins. */
export async function loadKubeconfig(options: KubeconfigOptions): Promise<KubeConfig> {
  const paths = options.path ? [options.path] : listPaths(options.env)
  const files = (await Promise.all(paths.map((path) => readOne(path, paths.length > 1)))).filter((file) => file !== undefined)
  if (files.length === 0) throw new BadKubeconfig(`kubeconfig: none of ${paths.join(', ')} exists. Set KUBECONFIG or give a path`)
  return parseContext(merge(files), { source: paths.join(', '), context: options.context, outside: true })
}

/** For a kubeconfig from an untrusted source such as a Secret: it must neither name local files nor start programs. */
export function parseForeignKubeconfig(text: string, options: { source: string; context?: string | undefined }): KubeConfig {
  return parseContext(parseText(text, options.source), { ...options, outside: false })
}

function listPaths(env: KubeconfigOptions['env']): string[] {
  const listed = (env['KUBECONFIG'] ?? '').split(delimiter).filter((path) => path !== '')
  return listed.length > 0 ? listed : [join(env['HOME'] ?? homedir(), '.kube', 'config')]
}

const KUBECONFIG_BYTES_MAX = 4 * 1024 * 1024

async function readOne(path: string, mayBeAbsent: boolean): Promise<Fields | undefined> {
  const text = await readFile(path, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (mayBeAbsent && cause.code === 'ENOENT') return undefined
    throw new BadKubeconfig(`kubeconfig ${path}: cannot be read: ${cause.code ?? cause.message}`, { cause })
  })
  return text === undefined ? undefined : anchorFiles(parseText(text, path), dirname(path))
}

function parseText(text: string, source: string): Fields {
  if (text.length > KUBECONFIG_BYTES_MAX)
    throw new BadKubeconfig(`kubeconfig ${source}: larger than 4 MiB, which is too large for a kubeconfig`)
  let value: unknown
  try {
    value = parse(text, { maxAliasCount: 100 })
  } catch (cause) {
    throw new BadKubeconfig(`kubeconfig ${source}: is not valid YAML: ${firstLine(cause)}`, { cause })
  }
  if (!isFields(value)) throw new BadKubeconfig(`kubeconfig ${source}: contains no mapping with clusters, users and contexts`)
  return value
}

const firstLine = (error: unknown): string => (error instanceof Error ? error.message : String(error)).split('\n')[0] ?? ''

/** Relative paths are resolved against the kubeconfig that contains them, also after a merge. */
function anchorFiles(file: Fields, baseDir: string): Fields {
  for (const entry of [...rowsAt(file, 'clusters'), ...rowsAt(file, 'users')]) {
    const inner = fieldsAt(entry, 'cluster') ?? fieldsAt(entry, 'user')
    for (const key of FILE_KEYS) {
      const path = textAt(inner, key)
      if (inner && path) inner[key] = isAbsolute(path) ? path : join(baseDir, path)
    }
    const exec = fieldsAt(inner, 'exec')
    const command = textAt(exec, 'command')
    // kubectl's rule: a command with a slash is a path relative to the kubeconfig, one without is looked up in PATH.
    if (exec && command?.includes('/') && !isAbsolute(command)) exec['command'] = join(baseDir, command)
  }
  return file
}

function merge(files: readonly Fields[]): Fields {
  const rows = (key: string) => files.flatMap((file) => rowsAt(file, key))
  return {
    clusters: rows('clusters'),
    users: rows('users'),
    contexts: rows('contexts'),
    'current-context': files.map((file) => textAt(file, 'current-context')).find((name) => name),
  }
}
