import { mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type GitServer, gitServer } from '@brokkr/testing/servers/git-server.ts'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { classifyGitFailure, isSafeBranch } from './git-failure.ts'
import { openGitRepositories } from './repositories.ts'
import { type GitAccess, GitError, type GitRepositories } from './workspace.ts'

const auth = { username: 'bot', password: 'word-that-nobody-may-see' }
const signal = new AbortController().signal
let server: GitServer
let repositories: GitRepositories
let repositoryCount = 0

beforeAll(async () => {
  server = await gitServer({ auth })
  repositories = await openGitRepositories({ cacheDir: null, timeoutMs: 20_000, bytesMax: 1 << 26, allowInsecure: true })
})
afterAll(async () => {
  await repositories.close()
  await server.close()
})

async function open(more: Partial<GitAccess> = {}, from: GitRepositories = repositories) {
  const path = `o/r${(repositoryCount += 1)}.git`
  const repository = await server.createRepository(path)
  const access: GitAccess = { url: `${server.url}/${path}`, ...auth, caPem: null, ...more }
  return { repository, access, workspace: await from.open(access, signal) }
}

async function failureOf(work: Promise<unknown>): Promise<GitError['failure']> {
  try {
    await work
  } catch (error) {
    if (error instanceof GitError) return error.failure
    throw error
  }
  return expect.unreachable()
}

const MARKED = 'a: 5 # {"$promotion": "a:b:c"}\n'

describe('the workspace', () => {
  test('marked files are regular YAML files; links, other files and other paths are left out', async () => {
    const { repository, workspace } = await open()
    const sha = await repository.commit(
      { 'a.yaml': MARKED, 'deep/down/b.yml': MARKED, 'c.txt': MARKED, 'd.yaml': 'a: 1\n', 'deep/ü.yaml': MARKED },
      { links: { 'link.yaml': '../../../etc/passwd', 'fake.yaml': '"$promotion"' } },
    )
    await using at = workspace
    expect(await at.fetchBase('main', signal)).toEqual({ sha })
    const all = await at.listMarkedFiles({ sha, paths: [] }, signal)
    expect(all.map(({ path }) => path)).toEqual(['a.yaml', 'deep/down/b.yml', 'deep/ü.yaml'])
    expect(all.every(({ content, mode }) => Buffer.from(content).toString() === MARKED && mode === '100644')).toBe(true)
    expect((await at.listMarkedFiles({ sha, paths: ['deep/**'] }, signal)).map(({ path }) => path)).toEqual([
      'deep/down/b.yml',
      'deep/ü.yaml',
    ])
    expect(await at.listMarkedFiles({ sha, paths: ['none/*.yaml'] }, signal)).toEqual([])
  })

  test('[X2] links of a repository are never followed or checked out, whatever is committed beneath them', async () => {
    const outside = await mkdtemp(join(tmpdir(), 'brokkr-outside-'))
    onTestFinished(() => rm(outside, { recursive: true, force: true }))
    const sentinel = join(outside, 'sentinel.yaml')
    await writeFile(sentinel, MARKED)
    await utimes(sentinel, new Date(1_000_000), new Date(2_000_000))
    const cacheDir = await mkdtemp(join(tmpdir(), 'brokkr-git-cache-'))
    onTestFinished(() => rm(cacheDir, { recursive: true, force: true }))
    const own = await openGitRepositories({ cacheDir, timeoutMs: 20_000, bytesMax: 1 << 26, allowInsecure: true })
    onTestFinished(() => own.close())
    const { repository, workspace } = await open({}, own)
    const links = { 'file.yaml': sentinel, folder: outside, etc: '/etc', 'up.yaml': '../../../../sentinel.yaml' }
    const parentSha = await repository.commit({ 'a.yaml': MARKED }, { links })
    await using at = workspace
    await at.fetchBase('main', signal)
    expect((await at.listMarkedFiles({ sha: parentSha, paths: [] }, signal)).map(({ path }) => path)).toEqual(['a.yaml'])
    // The name of a link, and a name beneath a linked folder.
    const files = ['file.yaml', 'folder/sentinel.yaml', 'a.yaml'].map((path) => ({ path, mode: '100644', content: Buffer.from('a: 6\n') }))
    const input = { parentSha, message: 'Promote\n', author: { name: 'B P', email: 'p@b' }, dateSeconds: 1_767_225_600 }
    const made = await at.commit({ ...input, files: [files[2]!] }, signal)
    expect(await at.push({ branch: 'promotion/links', sha: made!.sha, expected: null }, signal)).toBe('pushed')
    expect(await repository.diff('main', 'promotion/links')).toEqual(['1\t1\ta.yaml'])
    await at.commit({ ...input, files }, signal).catch((error: unknown) => expect(error).toBeInstanceOf(GitError))
    expect(await readFile(sentinel, 'utf8')).toBe(MARKED)
    expect((await stat(sentinel)).mtimeMs).toBe(2_000_000)
    expect(await readdir(outside)).toEqual(['sentinel.yaml'])
    const cached = await readdir(cacheDir, { recursive: true, withFileTypes: true })
    expect(cached.filter((entry) => entry.isSymbolicLink() || entry.name.endsWith('.yaml')).map(({ name }) => name)).toEqual([])
  })

  test('the same input gives the same commit, and an unchanged tree gives none', async () => {
    const { repository, workspace } = await open()
    const parentSha = await repository.commit({ 'a.yaml': MARKED, 'b.yaml': 'x\n' })
    await using at = workspace
    await at.fetchBase('main', signal)
    const input = { parentSha, message: 'Promote\n\nPromotion-Id: k\n', author: { name: 'B P', email: 'p@b' }, dateSeconds: 1_767_225_600 }
    const files = [{ path: 'a.yaml', mode: '100644', content: Buffer.from('a: 6\r\n') }]
    const first = await at.commit({ ...input, files }, signal)
    expect(await at.commit({ ...input, files }, signal)).toEqual(first)
    expect(await at.commit({ ...input, files: [{ ...files[0]!, content: Buffer.from(MARKED) }] }, signal)).toBe(null)
    expect(await at.push({ branch: 'promotion/x', sha: first!.sha, expected: null }, signal)).toBe('pushed')
    expect(await repository.read('promotion/x', 'a.yaml')).toBe('a: 6\r\n')
    expect(await repository.diff('main', 'promotion/x')).toEqual(['1\t1\ta.yaml'])
    expect(await repository.readCommit('promotion/x')).toContain('author B P <p@b> 1767225600 +0000\ncommitter B P <p@b> 1767225600 +0000')
    expect(await at.readTip('promotion/x', signal)).toEqual({
      sha: first!.sha,
      message: input.message,
      authorName: 'B P',
      author: 'B P <p@b> 1767225600 +0000',
      committer: 'B P <p@b> 1767225600 +0000',
      parents: [parentSha],
    })
    expect(await at.readTip('promotion/y', signal)).toBe(null)
  })

  test('a push or a deletion that expects another tip is lost and changes nothing', async () => {
    const { repository, workspace } = await open()
    const base = await repository.commit({ 'a.yaml': MARKED })
    await using at = workspace
    await at.fetchBase('main', signal)
    const commit = (content: string) =>
      at.commit(
        {
          parentSha: base,
          files: [{ path: 'a.yaml', mode: '100644', content: Buffer.from(content) }],
          message: 'm',
          author: { name: 'a', email: 'a@b' },
          dateSeconds: 1,
        },
        signal,
      )
    const ours = (await commit('1'))!.sha
    const next = (await commit('2'))!.sha
    const foreign = await repository.commit({ 'x.txt': '1' }, { branch: 'b' })
    expect(await at.push({ branch: 'b', sha: ours, expected: null }, signal)).toBe('lost')
    expect(await at.push({ branch: 'b', sha: ours, expected: base }, signal)).toBe('lost')
    expect(await repository.tip('b')).toBe(foreign)
    expect(await at.push({ branch: 'c', sha: ours, expected: null }, signal)).toBe('pushed')
    expect(await at.push({ branch: 'c', sha: ours, expected: null }, signal)).toBe('pushed')
    expect(await at.push({ branch: 'c', sha: next, expected: ours }, signal)).toBe('pushed')
    expect(await at.deleteBranch({ branch: 'c', expected: ours }, signal)).toBe('lost')
    expect(await at.deleteBranch({ branch: 'c', expected: next }, signal)).toBe('deleted')
    expect(await at.deleteBranch({ branch: 'c', expected: next }, signal)).toBe('deleted')
    expect(await repository.branches()).toEqual(['b', 'main'])
  })

  test('an ancestor is found behind commits of others', async () => {
    const { repository, workspace } = await open()
    const base = await repository.commit({ 'a.yaml': MARKED })
    const second = await repository.commit({ 'a.yaml': '2' })
    const third = await repository.commit({ 'a.yaml': '3' })
    await using at = workspace
    await at.fetchBase('main', signal)
    expect(await at.isAncestor(base, third, 'main', signal)).toBe(true)
    expect(await at.isAncestor(second, third, 'main', signal)).toBe(true)
    expect(await at.isAncestor('0'.repeat(40), third, 'main', signal)).toBe(false)
  })

  test('one workspace of a repository is open at a time', async () => {
    const { access, workspace } = await open()
    let isOpen = false
    const second = repositories.open(access, signal).then((at) => {
      isOpen = true
      return at
    })
    const cancelled = AbortSignal.timeout(50)
    await expect(repositories.open(access, cancelled)).rejects.toThrow(/timeout/)
    expect(isOpen).toBe(false)
    await workspace[Symbol.asyncDispose]()
    await (await second)[Symbol.asyncDispose]()
  })
})

describe('the cache', () => {
  async function openCache(more: { repositoriesMax?: number } = {}) {
    const cacheDir = await mkdtemp(join(tmpdir(), 'brokkr-git-cache-'))
    const cache = await openGitRepositories({ cacheDir, timeoutMs: 20_000, bytesMax: 1 << 26, allowInsecure: true, ...more })
    onTestFinished(async () => {
      await cache.close()
      await rm(cacheDir, { recursive: true })
    })
    const list = async () => (await readdir(cacheDir)).filter((name) => name.endsWith('.git'))
    return { cache, cacheDir, list }
  }

  test('a lock file that a killed process left does not stop the next fetch', async () => {
    const { cache, cacheDir, list } = await openCache()
    const { access, repository, workspace } = await open({}, cache)
    const sha = await repository.commit({ 'a.yaml': MARKED })
    await workspace[Symbol.asyncDispose]()
    await writeFile(join(cacheDir, (await list())[0]!, 'shallow.lock'), '')
    await using at = await cache.open(access, signal)
    expect(await at.fetchBase('main', signal)).toEqual({ sha })
  })

  test('a fetch that is cancelled leaves no lock file', async () => {
    const { cache, cacheDir, list } = await openCache()
    const { repository, workspace } = await open({}, cache)
    const sha = await repository.commit({ 'a.yaml': MARKED })
    await using at = workspace
    const arrival = Promise.withResolvers<void>()
    const answer = Promise.withResolvers<void>()
    server.beforeAnswer = () => {
      arrival.resolve()
      return answer.promise
    }
    onTestFinished(() => {
      server.beforeAnswer = null
    })
    const cancelled = new AbortController()
    const fetching = at.fetchBase('main', cancelled.signal)
    await arrival.promise
    await writeFile(join(cacheDir, (await list())[0]!, 'shallow.lock'), '')
    cancelled.abort(new Error('cancelled'))
    await expect(fetching).rejects.toThrow('cancelled')
    server.beforeAnswer = null
    answer.reject(new Error('the fetch was cancelled'))
    expect(await at.fetchBase('main', signal)).toEqual({ sha })
  })

  test('the repository that was used longest ago is removed at the limit', async () => {
    const { cache, list } = await openCache({ repositoriesMax: 2 })
    const names: string[] = []
    for (let count = 0; count < 3; count++) {
      const { workspace } = await open({}, cache)
      names.push((await list()).find((name) => !names.includes(name))!)
      await workspace[Symbol.asyncDispose]()
    }
    expect((await list()).toSorted()).toEqual(names.slice(1).toSorted())
  })

  test('a directory that the program did not make stays and does not count at the limit', async () => {
    const { cache, cacheDir, list } = await openCache({ repositoriesMax: 1 })
    const foreign = ['.git', 'shop.git', `${'a'.repeat(39)}.git`, `${'a'.repeat(41)}.git`, `${'A'.repeat(40)}.git`]
    for (const name of foreign) {
      await mkdir(join(cacheDir, name))
      await utimes(join(cacheDir, name), 0, 0)
    }
    for (let count = 0; count < 3; count++) await (await open({}, cache)).workspace[Symbol.asyncDispose]()
    const names = await list()
    expect(names).toEqual(expect.arrayContaining(foreign))
    expect(names).toHaveLength(foreign.length + 1)
  })
})

describe('failures', () => {
  test('a server that wants a password and gets none, or a wrong one, says authentication', async () => {
    for (const more of [{ username: null, password: null }, { password: 'wrong' }]) {
      const { repository, workspace } = await open(more)
      await repository.commit({ 'a.yaml': MARKED })
      await using at = workspace
      const failure = await failureOf(at.fetchBase('main', signal))
      expect(failure).toMatchObject({ class: 'configuration', reason: 'AuthenticationFailed' })
      expect(failure.message).toContain('authentication')
      expect(failure.message).not.toContain(auth.password)
    }
  })

  test('a missing branch and a missing repository are told apart', async () => {
    const { access, repository, workspace } = await open()
    await repository.commit({ 'a.yaml': MARKED })
    await using at = workspace
    expect(await failureOf(at.fetchBase('nowhere', signal))).toMatchObject({ class: 'configuration', reason: 'BranchNotFound' })
    await using other = await repositories.open({ ...access, url: `${server.url}/o/none.git` }, signal)
    expect(await failureOf(other.fetchBase('main', signal))).toMatchObject({ class: 'configuration', reason: 'RepositoryNotFound' })
  })

  test('an unresolvable host is transient and the message names the URL', async () => {
    const strict = await openGitRepositories(
      { cacheDir: null, timeoutMs: 5_000, bytesMax: 1 << 26, allowInsecure: false },
      {
        lookup: () => Promise.reject(new Error('ENOTFOUND')),
      },
    )
    const access = { url: 'https://nowhere.example/o/r.git', ...auth, caPem: null }
    const failure = await failureOf(strict.open(access, signal))
    expect(failure).toMatchObject({ class: 'transient' })
    expect(failure.message).toContain('https://nowhere.example/o/r.git')
    expect(failure.message).not.toContain(auth.password)
    await strict.close()
  })

  test('a loopback address is refused after resolution unless insecure Git is allowed', async () => {
    const strict = await openGitRepositories(
      { cacheDir: null, timeoutMs: 5_000, bytesMax: 1 << 26, allowInsecure: false },
      {
        lookup: () => Promise.resolve(['127.0.0.1']),
      },
    )
    const access = { url: 'https://inside.example/o/r.git', ...auth, caPem: null }
    expect(await failureOf(strict.open(access, signal))).toMatchObject({ class: 'configuration', reason: 'InvalidRepositoryURL' })
    await strict.close()
  })

  test('a redirect is not followed', async () => {
    const { workspace } = await open()
    await using at = workspace
    server.status = { code: 302, headers: { location: `${server.url}/o/other.git/info/refs` } }
    try {
      expect(await failureOf(at.fetchBase('main', signal))).toMatchObject({ class: 'configuration', reason: 'RepositoryMoved' })
    } finally {
      server.status = null
    }
  })

  test('a repository over the size limit is refused', async () => {
    const small = await openGitRepositories({ cacheDir: null, timeoutMs: 20_000, bytesMax: 300_000, allowInsecure: true })
    const { repository, workspace } = await open({}, small)
    const noise = Buffer.from(Array.from({ length: 1 << 20 }, (_, index) => ((index * 2_654_435_761) >>> 24) ^ ((index * index) & 255)))
    await repository.commit({ 'big.bin': noise, 'a.yaml': MARKED })
    expect(await failureOf(workspace.fetchBase('main', signal))).toMatchObject({ class: 'configuration', reason: 'RepositoryTooLarge' })
    await workspace[Symbol.asyncDispose]()
    await small.close()
  })

  test('a branch name that looks like an option is refused before git starts', async () => {
    const { workspace } = await open()
    await using at = workspace
    expect(await failureOf(at.fetchBase('--upload-pack=touch', signal))).toMatchObject({ class: 'configuration', reason: 'InvalidBranch' })
    expect(['a b', 'a..b', '-x', 'x.lock', 'a~1', '/a', 'a/', ''].filter(isSafeBranch)).toEqual([])
    expect(['main', 'promotion/ns/p/prod/1-abcd', 'release-1.0'].every(isSafeBranch)).toBe(true)
  })

  test('the texts of git are sorted into classes', () => {
    const kind = (stderr: string) => {
      const { class: name, reason } = classifyGitFailure({ stderr, killedBy: null }, 'https://h/r')
      return `${name} ${reason}`
    }
    expect(kind("fatal: unable to access 'https://h/r/': Could not resolve host: h")).toBe('transient GitFailed')
    expect(kind("fatal: unable to access 'https://h/r/': The requested URL returned error: 503")).toBe('transient GitFailed')
    expect(kind("fatal: unable to access 'https://h/r/': The requested URL returned error: 429")).toBe('rate-limited RateLimited')
    expect(kind("fatal: unable to access 'https://h/r/': SSL certificate problem: self-signed")).toBe('configuration CertificateRefused')
    expect(kind("fatal: transport 'ssh' not allowed")).toBe('configuration InvalidRepositoryURL')
    expect(kind('! [remote rejected] x -> x (pre-receive hook declined)')).toBe('refusal PushDeclined')
  })
})

test('no credential stands on a command line while git runs', async () => {
  const { repository, workspace } = await open()
  await repository.commit({ 'a.yaml': MARKED })
  await using at = workspace
  const seen: string[] = []
  const done = new AbortController()
  const watching = (async () => {
    while (!done.signal.aborted) {
      const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
      const lines = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')))
      seen.push(...lines.filter((line) => line.startsWith('git') || line.includes('git-remote')))
      await sleep(1)
    }
  })()
  const isSeen = () => seen.some((line) => line.includes(server.url))
  for (let times = 0; times < 3 || !isSeen(); times += 1) await at.fetchBase('main', signal)
  done.abort()
  await watching
  const basic = Buffer.from(`${auth.username}:${auth.password}`).toString('base64')
  expect(seen.filter((line) => line.includes(auth.password) || line.includes(basic))).toEqual([])
})
