import { createHash } from 'node:crypto'
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type Fault, type FileServer, startFileServer } from '../test-parts/file-server.ts'
import { tarball } from '../test-parts/tar.ts'
import { tempDir } from '../test-parts/temp-dir.ts'
import { type AssetProgress, ensureKubeAssets, findKubeAssets, selectGroups } from './kube-assets.ts'
import { cacheKey, type KubePart } from './kube-parts.ts'
import { KubeUnavailable } from './kube-unavailable.ts'

type Place = 'named' | 'path' | 'cache' | 'mirror'
type Row = { there: Place[]; pathVersion?: string; from: Place | 'go' }

test.each<Row>([
  { there: ['named', 'path', 'cache', 'mirror'], from: 'named' },
  { there: ['path', 'cache', 'mirror'], from: 'path' },
  { there: ['path', 'cache', 'mirror'], pathVersion: '1.36.1', from: 'path' },
  { there: ['path', 'cache', 'mirror'], pathVersion: '1.35.4', from: 'cache' },
  { there: ['path', 'mirror'], pathVersion: '1.35.4', from: 'mirror' },
  { there: ['cache', 'mirror'], from: 'cache' },
  { there: ['mirror'], from: 'mirror' },
  { there: [], from: 'go' },
])('programs come from $from if $there exist and PATH has $pathVersion', async ({ there, pathVersion, from }) => {
  const machine = await setup()
  if (there.includes('named')) await machine.programs(machine.named, '1.36.9')
  if (there.includes('path')) await machine.programs(machine.bin, pathVersion ?? '1.36.4')
  if (there.includes('cache')) await machine.programs(join(machine.cache, cacheKey('core')), '1.36.4')
  if (there.includes('mirror')) machine.publish()
  await machine.fakeGo()
  const env = there.includes('named') ? { ...machine.env, BROKKR_KUBE_ASSETS: machine.named } : machine.env
  const assets = await ensureKubeAssets({ cacheDir: machine.cache, env, stage: 'core' })
  const folders = { named: machine.named, path: machine.bin }
  expect(assets.dir).toBe(from in folders ? folders[from as 'named' | 'path'] : join(machine.cache, cacheKey('core')))
  expect(await readFile(assets.kubeApiserver, 'utf8')).toContain({ mirror: 'published', go: 'built' }[from as string] ?? 'echo')
  expect(assets.version).toBe({ named: 'v1.36.9', path: `v${pathVersion ?? '1.36.4'}` }[from as string] ?? 'v1.36.4')
  expect(await findKubeAssets({ cacheDir: machine.cache, env, stage: 'core' })).toEqual(assets)
})

test('PATH is used only if it has the whole group', async () => {
  const machine = await setup()
  await machine.programs(machine.bin, '1.36.4', ['kube-apiserver'])
  machine.publish()
  const assets = await ensureKubeAssets({ cacheDir: machine.cache, env: machine.env, stage: 'core' })
  expect(assets.dir).toBe(join(machine.cache, cacheKey('core')))
})

test('BROKKR_KUBE_ASSETS is searched alone, and the error lists missing programs', async () => {
  const machine = await setup()
  await machine.programs(machine.named, '1.36.4', ['etcd'])
  await machine.programs(machine.bin, '1.36.4')
  machine.publish()
  const env = { ...machine.env, BROKKR_KUBE_ASSETS: machine.named }
  const error = await ensureKubeAssets({ cacheDir: machine.cache, env, stage: 'core' }).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(KubeUnavailable)
  expect((error as Error).message).toContain(`${machine.named} has no executable kube-apiserver`)
  expect(machine.server.requests).toEqual([])
})

test.each<[string, string, Fault, string]>([
  ['one wrong byte', 'kube-apiserver', 'wrong-byte', 'is not the published file'],
  ['a missing checksum', 'kube-apiserver.sha256', 'missing', 'without a published checksum'],
  ['a cut download', 'kube-apiserver', 'cut-off', 'was interrupted'],
  ['a wrong byte in the archive of etcd', 'etcd-v3.6.8', 'wrong-byte', 'is not the published file'],
])('%s is rejected and leaves no cache entry', async (_what, name, fault, reason) => {
  const machine = await setup()
  machine.publish()
  const path =
    [...machine.server.files.keys()].find((key) => key.includes(`/${name}`) && (name.endsWith('256') || !key.endsWith('256'))) ?? ''
  machine.server.faults.set(path, fault)
  const error = await ensureKubeAssets({ cacheDir: machine.cache, env: machine.env, stage: 'core' }).catch((cause: unknown) => cause)
  expect((error as Error).message).toContain(reason)
  expect((await readdir(join(machine.cache, 'kube'))).filter((entry) => !entry.endsWith('.lock'))).toEqual([])
})

test('the error lists the reason of every source and two commands', async () => {
  const machine = await setup()
  const error = await ensureKubeAssets({ cacheDir: machine.cache, env: machine.env, stage: 'core' }).catch((cause: unknown) => cause)
  expect(error).toBeInstanceOf(KubeUnavailable)
  const { failedSources, message } = error as KubeUnavailable
  expect(failedSources.map(({ source }) => source)).toEqual(['BROKKR_KUBE_ASSETS', 'PATH', 'cache', 'download', 'build'])
  const plain = message
    .replaceAll(machine.server.url, 'MIRROR')
    .replaceAll(machine.cache, 'CACHE')
    .replace(/-(linux|darwin)[-/]\w+/g, '-OS')
  expect(plain).toBe(
    [
      'no practice cluster: cannot obtain etcd v3.6.8, kube-apiserver v1.36.4',
      '  BROKKR_KUBE_ASSETS: not set',
      '  PATH:               etcd not found',
      '  cache:              CACHE/kube/core-v1.36.4-OS does not exist',
      '  download:           MIRROR/etcd/v3.6.8/SHA256SUMS answered 404; programs without a published checksum are not used',
      '  build:              go is not on PATH, and python3, which could install it from a package index, is not on PATH',
      'Use one of these commands; the folder must contain etcd, kube-apiserver:',
      '  BROKKR_KUBE_ASSETS=FOLDER brokkr up',
      '  brokkr up --kubeconfig FILE',
    ].join('\n'),
  )
  expect(await findKubeAssets({ cacheDir: machine.cache, env: machine.env, stage: 'core' })).toBeUndefined()
})

test('progress has bytes and rate for a download, and packages for a build', async () => {
  const machine = await setup()
  await machine.fakeGo()
  const seen: AssetProgress[] = []
  const get = () =>
    ensureKubeAssets({ cacheDir: machine.cache, env: machine.env, stage: 'core', onProgress: (progress) => seen.push(progress) })
  await get()
  expect(seen.find(({ step }) => step === 'download')?.detail).toContain('not possible: ')
  expect(seen.findLast(({ step }) => step === 'build')).toMatchObject({
    part: 'core',
    done: 3,
    total: 4,
    detail: '3 of 4 packages compiled',
  })
  expect(seen.at(-1)).toMatchObject({ step: 'done' })
  await get()
  expect(seen.at(-1)).toMatchObject({ step: 'found', detail: 'etcd, kube-apiserver (cache)' })
  machine.publish()
  await ensureKubeAssets({
    cacheDir: join(machine.cache, 'other'),
    env: machine.env,
    stage: 'core',
    onProgress: (progress) => seen.push(progress),
  })
  expect(seen.findLast(({ step }) => step === 'download')?.detail).toMatch(/^kube-apiserver 0\.0 of 0\.0 MiB, [\d.]+ MiB\/s$/)
})

test('an abort is rethrown and leaves no cache entry', async () => {
  const machine = await setup()
  machine.publish()
  const stop = new AbortController()
  const options = { cacheDir: machine.cache, env: machine.env, stage: 'core', signal: stop.signal, onProgress: () => stop.abort() } as const
  await expect(ensureKubeAssets(options)).rejects.toMatchObject({ name: 'AbortError' })
  expect((await readdir(join(machine.cache, 'kube'))).filter((entry) => !entry.endsWith('.lock'))).toEqual([])
})

test.each([
  [{ stage: 'core' as const }, ['core']],
  [{}, ['core', 'controllers', 'kwok']],
  [{ stage: 'core' as const, parts: ['kubectl'] as const }, ['core', 'kubectl']],
  [{ parts: ['kwok', 'kubectl'] as const }, ['core', 'controllers', 'kwok', 'kubectl']],
])('the options %o select the groups %j', (options, groups) => {
  expect(selectGroups(options)).toEqual(groups)
})

/** A machine of its own: search path, home and cache in a temporary folder, and a mirror on loopback that has nothing yet. */
async function setup() {
  const root = tempDir()
  const server = await startFileServer()
  onTestFinished(() => server.close())
  const [named, bin, cache] = [join(root, 'named'), join(root, 'bin'), join(root, 'cache')]
  await mkdir(bin)
  return {
    server,
    named,
    bin,
    cache,
    env: { PATH: bin, HOME: root, BROKKR_KUBE_MIRROR: server.url },
    programs: (dir: string, version: string, parts?: KubePart[]) => writePrograms(dir, version, parts),
    publish: () => publish(server),
    fakeGo: () => writeProgram(join(bin, 'go'), goScript),
  }
}

async function writePrograms(dir: string, kubeVersion: string, parts: KubePart[] = ['etcd', 'kube-apiserver']): Promise<void> {
  await mkdir(dir, { recursive: true })
  for (const part of parts) await writeProgram(join(dir, part), `echo ${part} ${part === 'etcd' ? '3.6.8' : kubeVersion}`)
}

async function writeProgram(file: string, script: string): Promise<void> {
  await writeFile(file, `#!/bin/sh\n${script}\n`)
  await chmod(file, 0o755)
}

/** Answers as the go command does for what the builder asks: four packages to compile, one of them in its cache. */
const goScript = `
case "$1" in
  version) echo go version go1.26.8 linux/amd64 ;;
  list) echo go: downloading example.com/m v1.0.0; printf 'a\\nb\\nc\\nd\\n' ;;
  build)
    while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done
    printf 'a\\nb\\nc\\n'
    echo built > "$out/server"; echo built > "$out/kube-apiserver" ;;
esac`

function publish(server: FileServer): void {
  const [os, arch] = [process.platform, { x64: 'amd64' }[process.arch as string] ?? process.arch]
  const apiserver = `/release/v1.36.4/bin/${os}/${arch}/kube-apiserver`
  const content = Buffer.from('published kube-apiserver')
  server.files.set(apiserver, content).set(`${apiserver}.sha256`, Buffer.from(sha256(content)))
  const name = `etcd-v3.6.8-${os}-${arch}`
  const archive = tarball({ [`${name}/etcd`]: Buffer.from('published etcd') })
  server.files
    .set(`/etcd/v3.6.8/${name}.tar.gz`, archive)
    .set('/etcd/v3.6.8/SHA256SUMS', Buffer.from(`${sha256(archive)}  ${name}.tar.gz\n`))
}

function sha256(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}
