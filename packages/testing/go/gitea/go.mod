module brokkr.invalid/gitea

go 1.26.2

require code.gitea.io/gitea v1.26.0
