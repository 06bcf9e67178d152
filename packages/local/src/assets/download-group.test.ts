import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { startFileServer } from '../test-parts/file-server.ts'
import { tarball } from '../test-parts/tar.ts'
import { tempDir } from '../test-parts/temp-dir.ts'
import { downloadGroup } from './download-group.ts'
import { etcdVersion, kubeVersion } from './kube-parts.ts'
import { currentPlatform } from './sources.ts'

const { os, arch } = currentPlatform()
const archiveName = `etcd-${etcdVersion}-${os}-${arch}.tar.gz`
const archivePath = `/etcd/${etcdVersion}/${archiveName}`
const sumsPath = `/etcd/${etcdVersion}/SHA256SUMS`
const entry = `etcd-${etcdVersion}-${os}-${arch}/etcd`
const program = Buffer.from('#!/bin/sh\n'.repeat(100))
const sha256 = (content: Buffer): string => createHash('sha256').update(content).digest('hex')
const nul = Buffer.alloc(0)

/** A mirror with an archive of etcd and its list of hashes; the programs beside it are right. */
async function publish(archive: Buffer, sums = `${sha256(archive)}  ${archiveName}\n`) {
  const server = await startFileServer()
  onTestFinished(() => server.close())
  const apiserver = `/release/${kubeVersion}/bin/${os}/${arch}/kube-apiserver`
  server.files.set(archivePath, archive)
  server.files.set(sumsPath, Buffer.from(sums))
  server.files.set(apiserver, program)
  server.files.set(`${apiserver}.sha256`, Buffer.from(sha256(program)))
  const dir = tempDir()
  return { server, dir, download: () => downloadGroup('core', { dir, env: { BROKKR_KUBE_MIRROR: server.url } }) }
}

const good = tarball({ [entry]: program })

test.each<[what: string, archive: Buffer, sums: string | undefined, reason: RegExp]>([
  ['with another hash than listed', good, `${sha256(program)}  ${archiveName}\n`, /is not the published file/],
  ['that the list of hashes does not name', good, `${sha256(good)}  other.tar.gz\n`, /contains no SHA-256/],
  [
    'with another hash, which would also break the reader',
    gzipSync(nul).subarray(0, 5),
    `${sha256(good)}  ${archiveName}\n`,
    /is not the published/,
  ],
  ['whose program is a symbolic link', tarball({}, { [entry]: { type: '2', to: '/etc/passwd' } }), undefined, /contains no file/],
  ['whose program is a hard link', tarball({ passwd: program }, { [entry]: { type: '1', to: 'passwd' } }), undefined, /contains no file/],
  ['with the program beneath a link', tarball({ 'link/etcd': program }, { link: { type: '2', to: '/' } }), undefined, /contains no file/],
  ['with the program outside', tarball({ [`../${entry}`]: program, [`/${entry}`]: program }), undefined, /contains no file/],
  ['with the program under another name', tarball({ [`${entry}/../etcd`]: program }), undefined, /contains no file/],
])('[X32] an archive %s is refused, and the folder stays empty', async (_what, archive, sums, reason) => {
  const { dir, download } = await publish(archive, sums)
  await expect(download()).rejects.toThrow(reason)
  expect(await readdir(dir)).toEqual([])
})

test('[X32] without a list of hashes the archive is not even requested', async () => {
  const { server, dir, download } = await publish(good)
  server.files.delete(sumsPath)
  await expect(download()).rejects.toThrow('programs without a published checksum are not used')
  expect(server.requests).not.toContain(archivePath)
  expect(await readdir(dir)).toEqual([])
})

test('[X32] entries of other names are never written, wherever they point to', async () => {
  const hostile = { '../evil': program, '/tmp/brokkr-evil': program, 'etcd/../../evil': program, 'C:\\evil': program, 'a\0/evil': program }
  const { dir, download } = await publish(tarball({ ...hostile, [entry]: program }, { later: { type: '2', to: '/etc' } }))
  const around = await readdir(dirname(dir))
  await download()
  expect((await readdir(dir)).toSorted()).toEqual(['etcd', 'kube-apiserver'])
  expect(await readFile(join(dir, 'etcd'))).toEqual(program)
  expect((await readdir(dirname(dir))).filter((name) => name.includes('evil'))).toEqual(around.filter((name) => name.includes('evil')))
})
