// A real Gitea on loopback over a database of the run's PostgreSQL, with one user and a token of it. FORGE_URL, FORGE_TOKEN and FORGE_OWNER
// name another Gitea instead, such as one that is installed already.
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { freePort } from '@brokkr/local/supervisor/free-ports.ts'
import { waitUntilReady } from '@brokkr/local/supervisor/ready-probe.ts'
import { runTool } from '@brokkr/local/supervisor/run-tool.ts'
import { spawnOwned } from '@brokkr/local/supervisor/spawn-owned.ts'
import { ensureGitea, type GiteaProgram } from './gitea-program.ts'
import { emptyDatabase } from './postgres.ts'

export interface Gitea {
  readonly url: string
  /** Name of the user; repositories are created under it. */
  readonly owner: string
  readonly token: string
  stop(): Promise<void>
}

const startLimitMs = 120_000
const owner = 'root1'

export async function startGitea(env: NodeJS.ProcessEnv = process.env): Promise<Gitea> {
  const { FORGE_URL, FORGE_TOKEN, FORGE_OWNER } = env
  if (FORGE_URL !== undefined) return { url: FORGE_URL, token: FORGE_TOKEN ?? '', owner: FORGE_OWNER ?? '', stop: async () => undefined }
  const [program, database] = [await ensureGitea({ env }), await emptyDatabase()]
  const dir = await mkdtemp(join(tmpdir(), 'brokkr-gitea-'))
  const url = `http://127.0.0.1:${await freePort()}`
  const config = join(dir, 'app.ini')
  await writeFile(config, toConfig({ dir, url, databaseUrl: toUrl(database.url), program }), { mode: 0o600 })
  const run = (name: string, args: readonly string[]) =>
    runTool({
      name: `gitea ${name}`,
      command: program.program,
      args: ['--config', config, ...args],
      cwd: dir,
      logFile: join(dir, `${name}.log`),
      timeoutMs: startLimitMs,
    })
  await run('migrate', ['migrate'])
  const password = randomBytes(12).toString('base64url')
  const user = ['--admin', '--username', owner, '--password', password, '--email', 'root1@example.invalid', '--must-change-password=false']
  const created = await run('user', ['admin', 'user', 'create', ...user, '--access-token', '--access-token-scopes', 'all'])
  const web = spawnOwned({
    name: 'Gitea',
    command: program.program,
    args: ['--config', config, 'web'],
    cwd: dir,
    logFile: join(dir, 'web.log'),
  })
  const signal = new AbortController().signal
  const isReady = await waitUntilReady(`${url}/api/v1/version`, { isRunning: () => web.isRunning(), limitMs: startLimitMs, signal })
  if (!isReady) throw new Error(`Gitea did not start; the end of its log:\n${web.logTail(30)}`)
  return {
    url,
    owner,
    token: /Access token was successfully created[^0-9a-f]*([0-9a-f]{40})/.exec(created)?.[1] ?? '',
    async stop() {
      await web.stop(10_000)
      await rm(dir, { recursive: true, force: true })
    },
  }
}

/** Addresses over a Unix socket have no host. */
const toUrl = (text: string): URL => new URL(text.replace('@/', '@localhost/'))

/** The smallest configuration: no mail, no SSH, no registration, and a quick hash because the password is random. */
function toConfig(at: { dir: string; url: string; databaseUrl: URL; program: GiteaProgram }): string {
  const { dir, url, databaseUrl, program } = at
  const secret = (bytes: number) => randomBytes(bytes).toString('base64url')
  return `APP_NAME = test
RUN_USER = ${userInfo().username}
RUN_MODE = prod
WORK_PATH = ${dir}
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true

[server]
STATIC_ROOT_PATH = ${program.staticDir}
HTTP_ADDR = 127.0.0.1
HTTP_PORT = ${new URL(url).port}
ROOT_URL = ${url}/
DISABLE_SSH = true
OFFLINE_MODE = true
LFS_START_SERVER = false

[database]
DB_TYPE = postgres
HOST = ${databaseUrl.searchParams.get('host') ?? databaseUrl.host}
NAME = ${databaseUrl.pathname.slice(1)}
USER = ${decodeURIComponent(databaseUrl.username)}
PASSWD = \`${decodeURIComponent(databaseUrl.password)}\`
SSL_MODE = disable

[security]
INSTALL_LOCK = true
SECRET_KEY = ${secret(24)}
PASSWORD_HASH_ALGO = pbkdf2$1000$50

[oauth2]
ENABLED = false
JWT_SECRET = ${secret(32)}

[service]
DISABLE_REGISTRATION = true

[log]
LEVEL = warn

[cron]
ENABLED = false
`
}
