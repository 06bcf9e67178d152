// One locked cache repository, used by the git program. There is no work tree: no link is followed, no filter and no hook runs.
import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { redactText } from '@brokkr/runtime/logging/redact-text.ts'
import { classifyGitFailure, isLeaseLost, isSafeBranch } from './git-failure.ts'
import { type GitOutput, type GitPlace, type GitRun, runGit } from './run-git.ts'
import { type CommitInput, GitError, type GitWorkspace, type MarkedFile, type RemoteCommit } from './workspace.ts'

export interface CliWorkspaceDeps {
  readonly place: GitPlace
  readonly url: string
  readonly config: Readonly<Record<string, string>>
  readonly timeoutMs: number
  readonly isOverLimit: () => Promise<boolean>
  readonly release: () => void
  readonly onRun?: ((command: string, seconds: number) => void) | undefined
}

const BASE = 'refs/brokkr/base'
const TIP = 'refs/brokkr/tip'
const FILES_MAX = 1000
const ANCESTORS_MAX = 100

export class CliWorkspace implements GitWorkspace {
  readonly #deps: CliWorkspaceDeps

  constructor(deps: CliWorkspaceDeps) {
    this.#deps = deps
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#deps.release()
  }

  async fetchBase(branch: string, signal: AbortSignal): Promise<{ readonly sha: string }> {
    await this.#fetch(branch, BASE, 1, signal)
    return { sha: (await this.#text(['rev-parse', '--verify', `${BASE}^{commit}`], signal)).trim() }
  }

  async listMarkedFiles(at: { sha: string; paths: readonly string[] }, signal: AbortSignal): Promise<readonly MarkedFile[]> {
    const pathspecs = at.paths.map((path) => `:(glob)${path}`)
    const grep = await this.#run({ args: ['grep', '-l', '-z', '-F', '-e', '"$promotion"', at.sha, '--', ...pathspecs], signal })
    if (grep.code === 1 && grep.killedBy === null) return []
    const found = new Set(
      this.#checked(grep)
        .stdout.toString('utf8')
        .split('\0')
        .map((line) => line.slice(at.sha.length + 1)),
    )
    const listed = parseTree((await this.#ok({ args: ['ls-tree', '-r', '-z', '--full-tree', at.sha], signal })).stdout.toString('utf8'))
    const files = listed.filter(({ mode, path }) => /^100(644|755)$/.test(mode) && /\.ya?ml$/.test(path) && found.has(path))
    if (files.length > FILES_MAX) throw this.#refused('TooManyFiles', `${files.length} files have markers, at most ${FILES_MAX}`)
    const input = files.map(({ sha }) => `${sha}\n`).join('')
    const blobs = parseBatch((await this.#ok({ args: ['cat-file', '--batch'], input, signal })).stdout)
    return files.map(({ path, mode }, index) => ({ path, mode, content: blobs[index]! }))
  }

  async commit(input: CommitInput, signal: AbortSignal): Promise<{ readonly sha: string } | null> {
    const tree = await this.#writeTree(input, signal)
    if (tree === (await this.#text(['rev-parse', '--verify', `${input.parentSha}^{tree}`], signal)).trim()) return null
    const { name, email } = input.author
    const date = `@${input.dateSeconds} +0000`
    const env = {
      GIT_AUTHOR_NAME: name,
      GIT_AUTHOR_EMAIL: email,
      GIT_AUTHOR_DATE: date,
      GIT_COMMITTER_NAME: name,
      GIT_COMMITTER_EMAIL: email,
      GIT_COMMITTER_DATE: date,
    }
    const { stdout } = await this.#ok({ args: ['commit-tree', '-p', input.parentSha, tree], env, input: input.message, signal })
    return { sha: stdout.toString('utf8').trim() }
  }

  async #writeTree({ parentSha, files }: CommitInput, signal: AbortSignal): Promise<string> {
    const index = join(this.#deps.place.repository, `index-${randomUUID()}`)
    const env = { GIT_INDEX_FILE: index }
    try {
      await this.#ok({ args: ['read-tree', parentSha], env, signal })
      const entries: string[] = []
      for (const { path, mode, content } of files) {
        const { stdout } = await this.#ok({ args: ['hash-object', '-w', '--no-filters', '--stdin'], input: content, signal })
        entries.push(`${mode} ${stdout.toString('utf8').trim()}\t${path}\0`)
      }
      await this.#ok({ args: ['update-index', '-z', '--index-info'], env, input: entries.join(''), signal })
      return (await this.#ok({ args: ['write-tree'], env, signal })).stdout.toString('utf8').trim()
    } finally {
      await rm(index, { force: true })
    }
  }

  async readTip(branch: string, signal: AbortSignal): Promise<RemoteCommit | null> {
    this.#checkBranch(branch)
    const ref = `refs/heads/${branch}`
    const { stdout } = await this.#ok({ args: ['ls-remote', '--', this.#deps.url, ref], signal })
    const isThere = stdout
      .toString('utf8')
      .split('\n')
      .some((line) => line.endsWith(`\t${ref}`))
    if (!isThere) return null
    await this.#fetch(branch, TIP, 1, signal)
    const sha = (await this.#text(['rev-parse', '--verify', `${TIP}^{commit}`], signal)).trim()
    return { sha, ...parseCommit(await this.#text(['cat-file', 'commit', sha], signal)) }
  }

  async fetchParent(at: { branch: string; sha: string }, signal: AbortSignal): Promise<boolean> {
    await this.#fetch(at.branch, TIP, 2, signal)
    return (await this.#text(['rev-parse', '--verify', `${TIP}^{commit}`], signal)).trim() === at.sha
  }

  async isAncestor(ancestor: string, tip: string, branch: string, signal: AbortSignal): Promise<boolean> {
    if (ancestor === tip) return true
    await this.#fetch(branch, TIP, ANCESTORS_MAX + 1, signal)
    const known = await this.#run({ args: ['rev-list', `--max-count=${ANCESTORS_MAX + 1}`, '--end-of-options', tip, '--'], signal })
    return known.code === 0 && known.stdout.toString('utf8').split('\n').includes(ancestor)
  }

  async listOwnAuthors(at: { branch: string; base: string; max: number }, signal: AbortSignal): Promise<readonly string[]> {
    await this.#fetch(at.base, BASE, at.max, signal)
    await this.#fetch(at.branch, TIP, at.max, signal)
    const args = ['rev-list', `--max-count=${at.max}`, '--no-commit-header', '--format=%an', TIP, `^${BASE}`, '--']
    return (await this.#text(args, signal)).split('\n').filter((line) => line !== '')
  }

  async push(at: { branch: string; sha: string; expected: string | null }, signal: AbortSignal): Promise<'pushed' | 'lost'> {
    const output = await this.#push(at.branch, at.sha, at.expected ?? '', signal)
    if (output.code === 0) return 'pushed'
    if (isLeaseLost(textOf(output))) return 'lost'
    throw this.#failed(output)
  }

  async deleteBranch(at: { branch: string; expected: string }, signal: AbortSignal): Promise<'deleted' | 'lost'> {
    const output = await this.#push(at.branch, '', at.expected, signal)
    if (output.code === 0) return 'deleted'
    if (!isLeaseLost(textOf(output)) && !/remote ref does not exist/.test(textOf(output))) throw this.#failed(output)
    return (await this.readTip(at.branch, signal)) === null ? 'deleted' : 'lost'
  }

  #push(branch: string, sha: string, expected: string, signal: AbortSignal): Promise<GitOutput> {
    this.#checkBranch(branch)
    const ref = `refs/heads/${branch}`
    const lease = `--force-with-lease=${ref}:${expected}`
    return this.#run({ args: ['push', '--porcelain', '--no-verify', lease, '--', this.#deps.url, `${sha}:${ref}`], signal })
  }

  async #fetch(branch: string, to: string, depth: number, signal: AbortSignal): Promise<void> {
    this.#checkBranch(branch)
    const options = [`--depth=${depth}`, '--no-tags', '--no-write-fetch-head', '--update-shallow', '--quiet']
    const args = ['fetch', ...options, '--', this.#deps.url, `+refs/heads/${branch}:${to}`]
    const output = await this.#run({ args, signal })
    if (await this.#deps.isOverLimit()) {
      await rm(this.#deps.place.repository, { recursive: true, force: true })
      throw this.#failed({ ...output, killedBy: 'limit' })
    }
    this.#checked(output)
  }

  async #text(args: readonly string[], signal: AbortSignal): Promise<string> {
    return (await this.#ok({ args, signal })).stdout.toString('utf8')
  }

  async #ok(run: Omit<GitRun, 'timeoutMs'>): Promise<GitOutput> {
    return this.#checked(await this.#run(run))
  }

  async #run(run: Omit<GitRun, 'timeoutMs'>): Promise<GitOutput> {
    const { place, config, timeoutMs, isOverLimit, onRun } = this.#deps
    const startedMs = performance.now()
    try {
      return await runGit(place, { ...run, config, timeoutMs, isOverLimit })
    } finally {
      onRun?.(run.args[0] ?? '', (performance.now() - startedMs) / 1000)
    }
  }

  #checked(output: GitOutput): GitOutput {
    if (output.code !== 0 || output.killedBy !== null) throw this.#failed(output)
    return output
  }

  #failed = (output: GitOutput): GitError => new GitError(classifyGitFailure(output, this.#deps.url))

  #refused = (reason: string, message: string): GitError =>
    new GitError({ outcome: 'failed', class: 'configuration', reason, message: redactText(message) })

  #checkBranch(branch: string): void {
    if (!isSafeBranch(branch)) throw this.#refused('InvalidBranch', `"${branch}" is not a branch name`)
  }
}

const textOf = ({ stdout, stderr }: GitOutput): string => `${stdout.toString('utf8')}\n${stderr}`

function parseTree(text: string): { mode: string; sha: string; path: string }[] {
  return text.split('\0').flatMap((entry) => {
    const match = /^(\d+) \w+ ([0-9a-f]+)\t([\s\S]+)$/.exec(entry)
    return match === null ? [] : [{ mode: match[1]!, sha: match[2]!, path: match[3]! }]
  })
}

/** `{sha} blob {size}\n{content}\n` for each. */
function parseBatch(output: Buffer): Buffer[] {
  const blobs: Buffer[] = []
  for (let at = 0; at < output.length; ) {
    const end = output.indexOf(0x0a, at)
    const size = Number(output.subarray(at, end).toString('latin1').split(' ')[2])
    blobs.push(output.subarray(end + 1, end + 1 + size))
    at = end + 1 + size + 1
  }
  return blobs
}

/** The raw object, because a shallow history hides parents. */
function parseCommit(raw: string): Omit<RemoteCommit, 'sha'> {
  const gap = raw.indexOf('\n\n')
  const head = raw.slice(0, gap)
  const author = /^author ([^\n]*)$/m.exec(head)?.[1] ?? ''
  return {
    message: raw.slice(gap + 2),
    author,
    authorName: /^([^\n]*) <[^>]*> \d+ [+-]\d+$/.exec(author)?.[1] ?? '',
    committer: /^committer ([^\n]*)$/m.exec(head)?.[1] ?? '',
    parents: [...head.matchAll(/^parent ([0-9a-f]+)$/gm)].map((match) => match[1]!),
  }
}
