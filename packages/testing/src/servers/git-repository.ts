// A bare repository on disk, for the Git server of tests: commits, reads and merges by the git program.
import { execFile } from 'node:child_process'
import { appendFile, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const execute = promisify(execFile)

export const gitEnvironment = (more: Record<string, string> = {}): Record<string, string> => ({
  PATH: process.env['PATH'] ?? '',
  LC_ALL: 'C',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_TERMINAL_PROMPT: '0',
  ...more,
})

export interface CommitOptions {
  readonly branch?: string
  readonly message?: string
  readonly author?: string
  /** A name and its target: a symbolic link. */
  readonly links?: Readonly<Record<string, string>>
}

export class BareRepository {
  readonly directory: string

  constructor(directory: string) {
    this.directory = directory
  }

  static async create(directory: string): Promise<BareRepository> {
    await mkdir(directory, { recursive: true })
    const repository = new BareRepository(directory)
    await repository.git(['init', '--quiet', '--bare', '--initial-branch=main', '.'])
    await appendFile(join(directory, 'config'), '[http]\n\treceivepack = true\n[uploadpack]\n\tallowFilter = true\n')
    return repository
  }

  async git(args: readonly string[], options: { input?: string | Uint8Array; env?: Record<string, string> } = {}): Promise<string> {
    const env = gitEnvironment({ GIT_DIR: this.directory, ...options.env })
    const running = execute('git', [...args], { cwd: this.directory, env, maxBuffer: 1 << 28 })
    // A program that reads no input may have ended already.
    running.child.stdin?.on('error', () => {}).end(options.input ?? '')
    return (await running).stdout
  }

  /** Null: no such ref. */
  async tip(branch: string): Promise<string | null> {
    const out = await this.git(['for-each-ref', '--format=%(objectname)', `refs/heads/${branch}`])
    return out.trim() === '' ? null : out.trim().split('\n')[0]!
  }

  async branches(): Promise<string[]> {
    return (await this.git(['for-each-ref', '--format=%(refname:lstrip=2)', 'refs/heads'])).split('\n').filter((line) => line !== '')
  }

  /** Adds a commit with these files to a branch (created when missing); its id. By fast-import: one run of git instead of one per object. */
  async commit(files: Readonly<Record<string, string | Uint8Array>>, options: CommitOptions = {}): Promise<string> {
    const branch = options.branch ?? 'main'
    const parent = await this.tip(branch)
    const { message = 'change', author = 'Dev' } = options
    const seconds = Math.floor(Date.now() / 1000)
    const parts = [
      `commit refs/heads/${branch}\nmark :1\ncommitter ${author} <d@x> ${seconds} +0000\n`,
      ...toData(message),
      parent === null ? '' : `from ${parent}\n`,
      ...Object.entries(files).flatMap(([path, content]) => [`M 100644 inline ${path}\n`, ...toData(content)]),
      ...Object.entries(options.links ?? {}).flatMap(([path, target]) => [`M 120000 inline ${path}\n`, ...toData(target)]),
      'get-mark :1\ndone\n',
    ]
    return (await this.git(['fast-import', '--quiet', '--done'], { input: Buffer.concat(parts.map((part) => Buffer.from(part))) })).trim()
  }

  async commitTree(tree: string, parents: readonly string[], { message = 'change', author = 'Dev' }: CommitOptions = {}): Promise<string> {
    const identity = { GIT_AUTHOR_NAME: author, GIT_AUTHOR_EMAIL: 'd@x', GIT_COMMITTER_NAME: author, GIT_COMMITTER_EMAIL: 'd@x' }
    const args = ['commit-tree', ...parents.flatMap((parent) => ['-p', parent]), tree]
    return (await this.git(args, { input: message, env: identity })).trim()
  }

  read = (ref: string, path: string): Promise<string> => this.git(['cat-file', 'blob', `${ref}:${path}`])

  /** The raw commit object. */
  readCommit = (ref: string): Promise<string> => this.git(['cat-file', 'commit', ref])

  /** Lines of `added deleted path` between two refs. */
  diff = async (from: string, to: string): Promise<string[]> =>
    (await this.git(['diff', '--numstat', from, to])).split('\n').filter((line) => line !== '')

  async hasChanges(base: string, head: string): Promise<boolean> {
    return (await this.git(['diff', '--name-only', `${base}...${head}`])) !== ''
  }

  /** False: a conflict. */
  async isMergeable(base: string, head: string): Promise<boolean> {
    return this.git(['merge-tree', '--write-tree', base, head]).then(
      () => true,
      () => false,
    )
  }

  /** A real merge commit; its id. */
  async merge(base: string, head: string): Promise<string> {
    const before = (await this.tip(base))!
    const tree = (await this.git(['merge-tree', '--write-tree', before, head])).trim().split('\n')[0]!
    const sha = await this.commitTree(tree, [before, head], { message: 'Merge' })
    await this.git(['update-ref', `refs/heads/${base}`, sha, before])
    return sha
  }
}

/** `data` of fast-import. */
function toData(content: string | Uint8Array): (string | Uint8Array)[] {
  const bytes = Buffer.from(content)
  return [`data ${bytes.length}\n`, bytes, '\n']
}
